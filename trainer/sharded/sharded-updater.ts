/**
 * An update over several workers, in parts that any of them can make, and make again: a plan, shards of gradients, and
 * steps that add them in the order of their numbers. The same request and number of shards end in the same bits, whoever
 * did which part. All files are in the update's own folder, and the weights of each step are published there under a name.
 */

import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { loadAlgorithms } from '../algorithms/load-module.ts';
import type { ShardSession, Trainer } from '../backend.ts';
import { isMadeFrom, readCheckpointRecord } from '../checkpoints/checkpoint.ts';
import type { PlanRequest, PlannedUpdate, RoundRequest, ShardRequest } from '../engine.ts';
import { Tally, type TallyData } from '../training/tally.ts';
import { learnMicroBatch, prepareUpdate, usefulData } from '../update.ts';
import { type Located, KnownPlan } from './known-plan.ts';
import { readPlan, writePlan } from './plan-file.ts';
import { readSealed, writeSealed } from './sealed-file.ts';
import { planOf, type PlannedRound, sequencesOf, type UpdatePlan } from './update-plan.ts';

interface Shard {
  /** Names the plan, the step and the place that the gradient is of. */
  readonly of: readonly [plan: string, round: number, shard: number];
  readonly tally: TallyData;
  readonly gradient: Float32Array;
}

type Progress = (fraction: number) => void;

const shardFile = (dir: string, round: number, shard: number): string => path.join(dir, `round-${round}-shard-${shard}`);

/** Where the state is from which a round begins; after the last one it is the update's result. */
function stateDir({ dir, plan }: Located, round: number): string {
  if (round === 0) return plan.request.fromDir;
  return round < plan.rounds.length ? path.join(dir, `round-${round}`) : plan.request.toDir;
}

/** Whether the round's state, or a later one, is there. */
async function isReached(at: Located, round: number): Promise<boolean> {
  for (let later = at.plan.rounds.length; later >= round; later--) {
    const record = await readCheckpointRecord(stateDir(at, later));
    if (record !== undefined && isMadeFrom(record, at.plan.request.input)) return true;
  }
  return false;
}

const told = (sha256: string, { rounds }: UpdatePlan): PlannedUpdate => ({ plan: sha256, rounds: rounds.map(({ shards }) => shards.length) });

export class ShardedUpdater {
  readonly #trainer: Trainer<ShardSession>;
  readonly #known: KnownPlan;

  constructor(trainer: Trainer<ShardSession>, known = new KnownPlan()) {
    this.#trainer = trainer;
    this.#known = known;
  }

  /** Lays down what is to be done; a plan that is there stands. Errors: those of `Updater.run` before its first step. */
  async planUpdate(request: PlanRequest): Promise<PlannedUpdate> {
    const { dir, shards, ...update } = request;
    const known = await readPlan(dir);
    if (known !== undefined) return told(known.sha256, known.value);
    usefulData(update);
    const { algorithm, fromDir, lora } = update;
    await loadAlgorithms(algorithm.module);
    const session = await this.#trainer.loadState({ dir: fromDir, lora, optimizer: false });
    try {
      const plan = planOf(update, await prepareUpdate(update, { trainer: this.#trainer, session }, shards), shards);
      await mkdir(dir, { recursive: true });
      // Who was faster may have been told his plan already: where passes differ in a bit, this one is another.
      const first = await readPlan(dir);
      return first === undefined ? told(await writePlan(dir, plan), plan) : told(first.sha256, first.value);
    } finally {
      await session.release();
    }
  }

  /** Writes one shard of a step's gradient, unless it is there or no longer needed. Errors: `PlanLost`, those of a pass. */
  async makeShard(request: ShardRequest, onProgress: Progress = () => undefined): Promise<void> {
    const { round, shard } = request;
    const at = await this.#planned(request);
    if ((await isReached(at, round + 1)) || (await this.#shard(at, round, shard)) !== undefined) return;
    const session = await this.#load(at, round, false);
    try {
      await this.#make(at, session, request, onProgress);
    } finally {
      await session.release();
    }
  }

  /**
   * Adds a round's shards in the order of their numbers, takes the step, and saves the next state; one that is there
   * stands. A shard that is missing or torn is made again. Errors: `PlanLost`, `TrainingDiverged`, `CheckpointTorn`.
   */
  async applyShards(request: RoundRequest, onProgress: Progress = () => undefined): Promise<void> {
    const { round } = request;
    const at = await this.#planned(request);
    if (await isReached(at, round + 1)) return;
    const session = await this.#load(at, round, true);
    try {
      const tally = await this.#reduce(at, session, request, onProgress);
      tally.addStep(await session.optimStep(at.plan.request.algorithm));
      await this.#save(at, session, round + 1, tally);
    } finally {
      await session.release();
    }
    await this.#clear(at, round);
    if (round + 1 === at.plan.rounds.length) this.#known.forget();
  }

  async #planned({ dir, plan }: RoundRequest): Promise<Located> {
    const at = await this.#known.of(dir, plan);
    await loadAlgorithms(at.plan.request.algorithm.module);
    return at;
  }

  #load(at: Located, round: number, optimizer: boolean): Promise<ShardSession> {
    return this.#trainer.loadState({ dir: stateDir(at, round), lora: at.plan.request.lora, optimizer });
  }

  /** `undefined` where there is none that is whole and of this plan. */
  async #shard({ dir, sha256 }: Located, round: number, shard: number): Promise<Shard | undefined> {
    const found = (await readSealed<Shard>(shardFile(dir, round, shard)))?.value;
    return found?.of.join() === [sha256, round, shard].join() ? found : undefined;
  }

  async #make(at: Located, session: ShardSession, { round, shard }: Pick<ShardRequest, 'round' | 'shard'>, onProgress: Progress): Promise<Shard> {
    const { epoch, minibatch, shards } = roundOf(at, round);
    const { algorithm, toVersion } = at.plan.request;
    const tally = new Tally(round);
    const passes = shards[shard] ?? [];
    for (const [i, planned] of passes.entries()) {
      await learnMicroBatch(session, sequencesOf(at.plan, planned), { algorithm, toVersion, pass: planned.pass, epoch, minibatch }, tally);
      onProgress((i + 1) / passes.length);
    }
    const made: Shard = { of: [at.sha256, round, shard], tally: tally.data, gradient: await session.takeGradient() };
    await writeSealed(shardFile(at.dir, round, shard), made).catch(async (error: unknown) => {
      await this.#known.confirm(at);
      throw error;
    });
    return made;
  }

  /** Gives the session the sum of the shards; returns what was measured up to here. */
  async #reduce(at: Located, session: ShardSession, { round }: RoundRequest, onProgress: Progress): Promise<Tally> {
    const tally = await tallyBefore(at, round);
    let sum: Float32Array | undefined;
    for (const shard of roundOf(at, round).shards.keys()) {
      const { gradient, tally: seen } = (await this.#shard(at, round, shard)) ?? (await this.#make(at, session, { round, shard }, onProgress));
      tally.merge(seen);
      sum = sum === undefined ? gradient : plus(sum, gradient);
    }
    if (sum !== undefined) session.setGradient(sum);
    return tally;
  }

  async #save(at: Located, session: ShardSession, reached: number, tally: Tally): Promise<void> {
    const { plan } = at;
    const { toVersion: version, algorithm, input } = plan.request;
    const isLast = reached === plan.rounds.length;
    const metrics = isLast ? tally.metrics(plan.tokens, plan.sequences.length, algorithm, plan.metrics) : tally.data;
    const dir = stateDir(at, reached);
    // Writing a state makes its folder: one that comes late must not bring back what was cleared away.
    await this.#known.confirm(at);
    await session.saveState({ dir, version, metrics, input });
    await session.publish({ dir, version });
  }

  /** What the next round does not need. */
  async #clear(at: Located, round: number): Promise<void> {
    for (const shard of roundOf(at, round).shards.keys()) await rm(shardFile(at.dir, round, shard), { force: true });
    if (round > 0) await rm(stateDir(at, round), { recursive: true, force: true });
  }
}

function roundOf({ plan, dir }: Located, round: number): PlannedRound {
  const found = plan.rounds[round];
  if (found === undefined) throw new RangeError(`${dir} has ${plan.rounds.length} rounds, and no round ${round}`);
  return found;
}

async function tallyBefore(at: Located, round: number): Promise<Tally> {
  const tally = new Tally();
  const before = round === 0 ? undefined : (await readCheckpointRecord(stateDir(at, round)))?.metrics;
  if (before !== undefined) tally.merge(before as TallyData);
  return tally;
}

/** a + b, in a. */
function plus(a: Float32Array, b: Float32Array): Float32Array {
  for (let i = 0; i < a.length; i++) a[i] = (a[i] ?? 0) + (b[i] ?? 0);
  return a;
}
