/**
 * An update over several workers. Any worker can compute any part, and repeat it: the plan, the shards of gradients,
 * and the steps, which add the shards in the order of their numbers. The same request and number of shards give the
 * same bits, whichever worker computed which part. All files, the weights after each step too, are in the update's own
 * folder.
 */

import { mkdir, rm, rmdir } from 'node:fs/promises';
import { importCached } from '../../modules/import-bundle.ts';
import type { ShardSession, Trainer } from '../backend.ts';
import { criticPlace } from '../critic/critic-files.ts';
import { ResidentCritic } from '../critic/resident-critic.ts';
import type { PlanRequest, PlannedUpdate, RoundRequest, ShardRequest, UpdateRequest } from '../update-request.ts';
import { prepareUpdate, type PreparedUpdate, usefulData } from '../training/prepare-update.ts';
import { openCriticRound } from './critic-round.ts';
import { KnownPlan } from './known-plan.ts';
import {
  checkPlanned,
  criticRounds,
  isDone,
  isLast,
  type Located,
  roundsOf,
  shardFile,
  shardsOf,
  spentStates,
} from './located-plan.ts';
import { checkStatesBefore, unlessStateLost } from './lost-state.ts';
import { layDown, readPlan } from './plan-file.ts';
import { openPolicyRound } from './policy-round.ts';
import type { Progress, RoundSession, Share } from './round-session.ts';
import { readSealed, type Sealed, writeSealed } from './sealed-file.ts';
import { planOf, type UpdatePlan } from './update-plan.ts';

interface Shard extends Share<unknown> {
  /** The plan, round and shard that the gradient belongs to. */
  readonly of: readonly [plan: string, round: number, shard: number];
}

/** Loads what the run's modules define. Errors: `ModulesFailed`. */
async function importModules({ modules }: UpdateRequest['algorithm']): Promise<void> {
  if (modules !== undefined) await importCached(modules);
}

const planned = ({ value, sha256 }: Sealed<UpdatePlan>): PlannedUpdate => ({ plan: sha256, rounds: roundsOf(value) });

export class ShardedUpdater {
  readonly #trainer: Trainer<ShardSession>;
  readonly #critics: ResidentCritic;
  readonly #known: KnownPlan;

  constructor(trainer: Trainer<ShardSession>, critics = new ResidentCritic(), known = new KnownPlan()) {
    this.#trainer = trainer;
    this.#critics = critics;
    this.#known = known;
  }

  /**
   * Writes the update's plan unless it exists; returns its digest and rounds. Errors: those of `Updater.run` before its
   * first step.
   */
  async planUpdate(request: PlanRequest): Promise<PlannedUpdate> {
    const { dir, shards, ...update } = request;
    const known = await readPlan(dir);
    if (known !== undefined) return planned(known);
    usefulData(update);
    await importModules(update.algorithm);
    // Before the slow preparation: a late plan must not create the folder again if it was removed in the meantime.
    await mkdir(dir, { recursive: true });
    const prepared = await this.#prepare(update, shards).catch(async (error: unknown) => {
      await rmdir(dir).catch(() => undefined);
      throw error;
    });
    // A faster worker's plan may be in use already, and this one may differ from it in a bit.
    return planned(await layDown(dir, planOf(update, prepared, shards)));
  }

  /**
   * Writes one shard of a step's gradient, unless it exists or is no longer needed. Errors: `PlanLost`, those of a
   * pass.
   */
  async forwardBackward(request: ShardRequest, onProgress: Progress = () => undefined): Promise<void> {
    const { round, shard } = request;
    const at = await this.#planned(request);
    await unlessStateLost(at, round, async () => {
      if ((await isDone(at, round)) || (await this.#shard(at, round, shard)) !== undefined) return;
      const session = await this.#open(at, round, false);
      try {
        await this.#make(at, session, request, onProgress);
      } finally {
        await session.release();
      }
    });
  }

  /**
   * Adds a round's shards in the order of their numbers, takes the step, and saves the next state, unless it exists. A
   * shard that is missing or torn is computed again. Errors: `PlanLost`, `TrainingDiverged`, `CheckpointTorn`.
   */
  async optimStep(request: RoundRequest, onProgress: Progress = () => undefined): Promise<void> {
    const { round } = request;
    const at = await this.#planned(request);
    await unlessStateLost(at, round, async () => {
      if (await isDone(at, round)) return;
      const session = await this.#open(at, round, true);
      try {
        await this.#reduce(at, session, request, onProgress);
      } finally {
        await session.release();
      }
    });
    // Also removes the files of an attempt that was killed at this point.
    await this.#clear(at, round);
    if (isLast(at, round)) this.#known.forget();
  }

  /** The part that needs all data, including a critic's values. */
  async #prepare(update: UpdateRequest, shards: number): Promise<PreparedUpdate> {
    const place = criticPlace(update);
    if (place === undefined) this.#critics.clear();
    const session = await this.#trainer.loadState({ dir: update.fromDir, lora: update.lora, optimizer: false });
    try {
      const placed = place && (await this.#critics.take(place, false));
      try {
        return await prepareUpdate(update, { trainer: this.#trainer, session, critic: placed?.critic }, shards);
      } finally {
        if (placed !== undefined) this.#critics.keep(placed);
      }
    } finally {
      await session.release();
    }
  }

  async #planned({ dir, plan }: RoundRequest): Promise<Located> {
    const at = await this.#known.of(dir, plan);
    await importModules(at.plan.request.algorithm);
    return at;
  }

  async #open(at: Located, round: number, optimizer: boolean): Promise<RoundSession> {
    await checkStatesBefore(at, round);
    return round < criticRounds(at.plan)
      ? openCriticRound(this.#critics, at, round, optimizer)
      : openPolicyRound(this.#trainer, at, round, optimizer);
  }

  /** `undefined` if there is no complete shard of this plan. */
  async #shard({ dir, sha256 }: Located, round: number, shard: number): Promise<Shard | undefined> {
    const found = (await readSealed<Shard>(shardFile(dir, round, shard)))?.value;
    return found?.of.join() === [sha256, round, shard].join() ? found : undefined;
  }

  async #make(
    at: Located,
    session: RoundSession,
    { round, shard }: Pick<ShardRequest, 'round' | 'shard'>,
    onProgress: Progress,
  ): Promise<Shard> {
    const made: Shard = { of: [at.sha256, round, shard], ...(await session.forwardBackward(shard, onProgress)) };
    await writeSealed(shardFile(at.dir, round, shard), made).catch(async (error: unknown) => {
      await checkPlanned(at);
      throw error;
    });
    return made;
  }

  /** Takes the step along the sum of the shards. */
  async #reduce(at: Located, session: RoundSession, { round }: RoundRequest, onProgress: Progress): Promise<void> {
    let sum: Float32Array | undefined;
    const seen: unknown[] = [];
    for (let shard = 0; shard < shardsOf(at, round); shard++) {
      const { gradient, tally } =
        (await this.#shard(at, round, shard)) ?? (await this.#make(at, session, { round, shard }, onProgress));
      seen.push(tally);
      sum = sum === undefined ? gradient : plus(sum, gradient);
    }
    await session.optimStep(sum ?? new Float32Array(0), seen);
  }

  /** Removes the files that later rounds do not need. */
  async #clear(at: Located, round: number): Promise<void> {
    for (let shard = 0; shard < shardsOf(at, round); shard++)
      await rm(shardFile(at.dir, round, shard), { force: true });
    for (const state of spentStates(at, round)) await rm(state, { recursive: true, force: true });
  }
}

/** a + b, in a. */
function plus(a: Float32Array, b: Float32Array): Float32Array {
  for (let i = 0; i < a.length; i++) a[i] = (a[i] ?? 0) + (b[i] ?? 0);
  return a;
}
