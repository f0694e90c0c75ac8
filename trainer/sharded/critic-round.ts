/** A round that trains the critic, in this process. Its states are directories that hold only the critic. */

import { readCheckpointRecord, writeCheckpoint } from '../checkpoints/checkpoint.ts';
import { criticCheckpoint, disposeCritic, stepCritic } from '../critic/critic.ts';
import { CriticTally, type CriticTallyData } from '../critic/critic-metrics.ts';
import type { PlacedCritic, ResidentCritic } from '../critic/resident-critic.ts';
import { forwardBackwardValues, type SettingsWithCritic, settingsWithCritic } from '../critic/train-critic.ts';
import { tf } from '../tensorflow.ts';
import { checkPlanned, criticBefore, type Located, resultDir } from './located-plan.ts';
import type { Progress, RoundSession, Share } from './round-session.ts';
import type { PlannedCritic, PlannedCriticRound } from './update-plan.ts';

/** The planned round, the plan of the critic's rounds, and the settings. */
interface OfCritic {
  readonly critic: PlannedCritic;
  readonly planned: PlannedCriticRound;
  readonly settings: SettingsWithCritic;
}

class CriticRound implements RoundSession<CriticTallyData> {
  readonly #at: Located;
  readonly #round: number;
  readonly #of: OfCritic;
  readonly #home: ResidentCritic;
  readonly #placed: PlacedCritic;
  /**
   * `taken`: the critic did not change. `written`: it equals the round's result. `unsaved`: it changed and was not
   * written.
   */
  #is: 'taken' | 'written' | 'unsaved' = 'taken';

  constructor(at: Located, round: number, of: OfCritic, home: ResidentCritic, placed: PlacedCritic) {
    this.#at = at;
    this.#round = round;
    this.#of = of;
    this.#home = home;
    this.#placed = placed;
  }

  async forwardBackward(shard: number, onProgress: Progress): Promise<Share<CriticTallyData>> {
    const {
      critic: { sequences },
      planned,
      settings,
    } = this.#of;
    const { critic } = this.#placed;
    const tally = new CriticTally();
    const passes = planned.shards[shard] ?? [];
    for (const [i, indices] of passes.entries()) {
      await forwardBackwardValues(
        critic,
        indices.flatMap((index) => sequences[index] ?? []),
        planned.sequences,
        settings,
        tally,
      );
      onProgress((i + 1) / passes.length);
    }
    const flat = critic.model.gradients.flatten(critic.model.decoder);
    const gradient = flat.dataSync() as Float32Array;
    flat.dispose();
    return { gradient, tally: tally.data };
  }

  async optimStep(sum: Float32Array, seen: readonly CriticTallyData[]): Promise<void> {
    const { critic } = this.#placed;
    const { toVersion, input } = this.#at.plan.request;
    const tally = await this.#tallyBefore();
    for (const one of seen) tally.merge(one);
    this.#is = 'unsaved';
    tally.addStep(stepCritic(critic, tf.tensor1d(sum), this.#of.settings.critic));
    await checkPlanned(this.#at);
    const { written } = await writeCheckpoint(resultDir(this.#at, this.#round), {
      ...criticCheckpoint(critic, toVersion),
      input,
      metrics: tally.data,
    });
    if (written) this.#is = 'written';
  }

  async release(): Promise<void> {
    const { critic } = this.#placed;
    critic.model.gradients.clear();
    if (this.#is === 'taken') this.#home.keep(this.#placed);
    else if (this.#is === 'written') await this.#home.keepWritten({ dir: resultDir(this.#at, this.#round) }, critic);
    else disposeCritic(critic);
  }

  async #tallyBefore(): Promise<CriticTally> {
    const tally = new CriticTally();
    if (this.#round === 0) return tally;
    const before = (await readCheckpointRecord(resultDir(this.#at, this.#round - 1)))?.metrics;
    if (before !== undefined) tally.merge(before as CriticTallyData);
    return tally;
  }
}

/** Errors: those of reading the critic that the round starts from. */
export async function openCriticRound(
  home: ResidentCritic,
  at: Located,
  round: number,
  optimizer: boolean,
): Promise<RoundSession> {
  const { critic } = at.plan;
  const [planned, place, settings] = [
    critic?.rounds[round],
    criticBefore(at, round),
    settingsWithCritic(at.plan.request.algorithm),
  ];
  if (critic === undefined || planned === undefined || place === undefined || settings === undefined)
    throw new RangeError(`${at.dir} has no critic round ${round}`);
  return new CriticRound(at, round, { critic, planned, settings }, home, await home.take(place, optimizer));
}
