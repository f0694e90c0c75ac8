/** A round that trains the policy. The last one writes the update's result, including the critic. */

import type { ShardSession, Trainer } from '../backend.ts';
import { type Checkpoint, readCheckpointRecord } from '../checkpoints/checkpoint.ts';
import { CheckpointTorn } from '../checkpoints/verified-checkpoint.ts';
import { carriedCritic } from '../critic/critic-files.ts';
import { criticMetrics, CriticTally, type CriticTallyData } from '../critic/critic-metrics.ts';
import { Tally, type TallyData } from '../training/tally.ts';
import { forwardBackward } from '../training/train-policy.ts';
import {
  checkPlanned,
  criticBefore,
  criticRounds,
  isLast,
  type Located,
  policyBefore,
  resultDir,
} from './located-plan.ts';
import type { Progress, RoundSession, Share } from './round-session.ts';
import { type PlannedRound, sequencesOf } from './update-plan.ts';

class PolicyRound implements RoundSession<TallyData> {
  readonly #at: Located;
  readonly #round: number;
  readonly #planned: PlannedRound;
  readonly #session: ShardSession;

  constructor(at: Located, round: number, planned: PlannedRound, session: ShardSession) {
    this.#at = at;
    this.#round = round;
    this.#planned = planned;
    this.#session = session;
  }

  async forwardBackward(shard: number, onProgress: Progress): Promise<Share<TallyData>> {
    const { plan } = this.#at;
    const { epoch, minibatch, shards } = this.#planned;
    const { algorithm, toVersion } = plan.request;
    const tally = new Tally(this.#stepsBefore);
    const passes = shards[shard] ?? [];
    for (const [i, planned] of passes.entries()) {
      await forwardBackward(
        this.#session,
        sequencesOf(plan, planned),
        { algorithm, toVersion, pass: planned.pass, epoch, minibatch },
        tally,
      );
      onProgress((i + 1) / passes.length);
    }
    return { gradient: await this.#session.takeGradient(), tally: tally.data };
  }

  async optimStep(sum: Float32Array, seen: readonly TallyData[]): Promise<void> {
    const tally = await this.#tallyBefore();
    for (const one of seen) tally.merge(one);
    this.#session.setGradient(sum);
    tally.addStep(await this.#session.optimStep(this.#at.plan.request.algorithm));
    await this.#save(tally);
  }

  release(): Promise<void> {
    return this.#session.release();
  }

  get #stepsBefore(): number {
    return this.#round - criticRounds(this.#at.plan);
  }

  async #tallyBefore(): Promise<Tally> {
    const tally = new Tally();
    const before =
      this.#stepsBefore === 0 ? undefined : (await readCheckpointRecord(policyBefore(this.#at, this.#round)))?.metrics;
    if (before !== undefined) tally.merge(before as TallyData);
    return tally;
  }

  async #save(tally: Tally): Promise<void> {
    const [at, dir] = [this.#at, resultDir(this.#at, this.#round)];
    const { tokens, sequences, metrics: prepared, request } = at.plan;
    const { toVersion: version, algorithm, input } = request;
    await checkPlanned(at);
    const beside = isLast(at, this.#round) ? await trainedCritic(at) : undefined;
    const metrics = isLast(at, this.#round)
      ? tally.metrics(tokens, sequences.length, algorithm, { ...prepared, ...beside?.metrics })
      : tally.data;
    await this.#session.saveState({ dir, version, metrics, input, critic: beside?.critic });
    await this.#session.publish({ dir, version });
  }
}

/** The critic after its rounds, and its metrics. Errors: `CheckpointTorn`. */
async function trainedCritic(
  at: Located,
): Promise<{ readonly critic: Checkpoint | undefined; readonly metrics: Record<string, number> } | undefined> {
  const { critic: planned, request } = at.plan;
  const place = criticBefore(at, criticRounds(at.plan));
  if (planned === undefined || request.algorithm.critic === undefined || place === undefined || !('dir' in place))
    return undefined;
  const record = await readCheckpointRecord(place.dir);
  if (record === undefined) throw new CheckpointTorn(place.dir, 'it has no record');
  const tally = new CriticTally();
  tally.merge(record.metrics as CriticTallyData);
  return {
    critic: await carriedCritic(place, request.toVersion),
    metrics: criticMetrics(tally, planned.sequences, request.algorithm.critic),
  };
}

/** Errors: those of reading the state that the round starts from. */
export async function openPolicyRound(
  trainer: Trainer<ShardSession>,
  at: Located,
  round: number,
  optimizer: boolean,
): Promise<RoundSession> {
  const planned = at.plan.rounds[round - criticRounds(at.plan)];
  if (planned === undefined) throw new RangeError(`${at.dir} has no policy round ${round}`);
  return new PolicyRound(
    at,
    round,
    planned,
    await trainer.loadState({ dir: policyBefore(at, round), lora: at.plan.request.lora, optimizer }),
  );
}
