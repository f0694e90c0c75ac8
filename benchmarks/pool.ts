/**
 * `bench pool`: an update by several workers that share the processor cores, against the same update by one worker with
 * all cores. They take turns, and the weights are compared by their bits. Workers are processes; the cost of Temporal
 * between the parts is not included.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCheckpointRecord } from '../trainer/checkpoints/checkpoint.ts';
import type { PlannedUpdate } from '../trainer/update-request.ts';
import type { UpdateSettings } from '../protocol/algorithm.ts';
import { readModelConfig } from '../trainer/model/describe-policy.ts';
import { type BenchModel, benchModel, median } from './engine/bench-models.ts';
import { JsonProcess } from './engine/json-process.ts';

export interface PoolBenchOptions {
  readonly model: BenchModel;
  readonly workers: number;
  readonly rollouts: number;
  /** Mean length of a rollout, in tokens. */
  readonly tokens: number;
  readonly epochs: number;
  readonly minibatches: number;
  readonly rounds: number;
  readonly note: (line: string) => void;
}

const EXTENSION = import.meta.url.endsWith('.ts') ? 'ts' : 'js';

function start(threads: number): JsonProcess {
  const program = fileURLToPath(new URL(`./pool-process.${EXTENSION}`, import.meta.url));
  return new JsonProcess({
    command: process.execPath,
    args: ['--disable-warning=ExperimentalWarning', program],
    env: { ...process.env, TF_NUM_INTRAOP_THREADS: String(threads), CUDA_VISIBLE_DEVICES: '' },
  });
}

function settingsOf({ epochs, minibatches }: PoolBenchOptions): UpdateSettings {
  return {
    learningRate: 1e-4,
    epochs,
    minibatches,
    clipLow: 0.2,
    clipHigh: 0.28,
    maxGradNorm: 1,
    weightDecay: 0,
    betas: [0.9, 0.999],
    epsilon: 1e-8,
    microBatchTokens: 2048,
  };
}

/** The parts of an update over `workers`: shard i by worker i, as from the queue if all are free. */
async function inShards(workers: readonly JsonProcess[], request: { readonly dir: string }): Promise<void> {
  const [first] = workers;
  if (first === undefined) throw new TypeError('inShards needs at least one worker');
  const { plan, rounds } = await first.call<PlannedUpdate>('plan', request);
  for (const [round, shards] of rounds.entries()) {
    const at = { dir: request.dir, plan, round };
    await Promise.all(
      workers.map(async (worker, i) => {
        for (let shard = i; shard < shards; shard += workers.length) await worker.call('shard', { ...at, shard });
      }),
    );
    await first.call('step', at);
  }
}

async function digestIn(dir: string): Promise<string | undefined> {
  return (await readCheckpointRecord(dir))?.sha256;
}

/** Whether one worker gets the same weights as all together: with as many threads as each has, and with all threads. */
async function sameBits(
  request: (name: string) => { readonly dir: string; readonly toDir: string },
  alone: JsonProcess,
  pool: readonly JsonProcess[],
  threads: number,
) {
  const like = start(threads);
  try {
    const [shared, single, all] = [request('pool'), request('single'), request('all')];
    await inShards(pool, shared);
    await inShards([like], single);
    await inShards([alone], all);
    const together = await digestIn(shared.toDir);
    return {
      identical: together !== undefined && together === (await digestIn(single.toDir)),
      identicalWithAllThreads: together === (await digestIn(all.toDir)),
    };
  } finally {
    await like.close();
  }
}

/** The elapsed time of one update, and the processor time of all its workers. In seconds. */
interface Took {
  readonly seconds: number;
  readonly processor: number;
}

async function usedBy(workers: readonly JsonProcess[]): Promise<number> {
  const used = await Promise.all(workers.map((worker) => worker.call<{ seconds: number }>('used', {})));
  return used.reduce((sum, { seconds }) => sum + seconds, 0);
}

async function timed(workers: readonly JsonProcess[], work: () => Promise<unknown>): Promise<Took> {
  const [before, begun] = [await usedBy(workers), performance.now()];
  await work();
  const seconds = (performance.now() - begun) / 1000;
  return { seconds, processor: (await usedBy(workers)) - before };
}

const medians = (took: readonly Took[]): Took => ({
  seconds: median(took.map(({ seconds }) => seconds)),
  processor: median(took.map(({ processor }) => processor)),
});

/** Errors: `CallFailed`. */
export async function benchPool(options: PoolBenchOptions) {
  const { model, workers: count, rollouts, tokens, rounds, note } = options;
  const cores = availableParallelism();
  const threads = Math.max(1, Math.floor(cores / count));
  const scratch = await mkdtemp(join(tmpdir(), 'longhaul-bench-'));
  const alone = start(cores);
  const pool = Array.from({ length: count }, () => start(threads));
  try {
    const fromDir = await benchModel(model, scratch);
    const { vocabSize: vocabulary } = await readModelConfig(fromDir);
    await Promise.all([alone, ...pool].map((one) => one.call('used', {})));
    const request = (name: string) => ({
      made: { rollouts, tokens, vocabulary },
      fromDir,
      toDir: join(scratch, name),
      toVersion: 1,
      algorithm: settingsOf(options),
      dir: join(scratch, `${name}-parts`),
      shards: count,
    });
    const measured = { one: [] as Took[], pool: [] as Took[], oneInShards: [] as Took[] };
    const bits = await sameBits(request, alone, pool, threads);
    // The first round allocates and compiles: it is not counted.
    for (let round = 0; round <= rounds; round += 1) {
      const [whole, shared, again] = ['one', 'pool', 'shards'].map((kind) => request(`${kind}-${round}`)) as [
        ReturnType<typeof request>,
        ReturnType<typeof request>,
        ReturnType<typeof request>,
      ];
      const took = {
        one: await timed([alone], () => alone.call('update', whole)),
        pool: await timed(pool, () => inShards(pool, shared)),
        oneInShards: await timed([alone], () => inShards([alone], again)),
      };
      for (const { toDir, dir } of [whole, shared, again])
        for (const each of [toDir, dir]) await rm(each, { recursive: true, force: true });
      note(
        `bench   round ${round} of ${rounds}: one worker ${took.one.seconds.toFixed(2)} s, ` +
          `${count} workers ${took.pool.seconds.toFixed(2)} s, one worker in shards ` +
          `${took.oneInShards.seconds.toFixed(2)} s`,
      );
      if (round === 0) continue;
      for (const kind of ['one', 'pool', 'oneInShards'] as const) measured[kind].push(took[kind]);
    }
    const [one, shared, oneInShards] = [medians(measured.one), medians(measured.pool), medians(measured.oneInShards)];
    return {
      model,
      rollouts,
      tokens,
      cores,
      workers: count,
      threads,
      speedup: one.seconds / shared.seconds,
      ...bits,
      seconds: { one: one.seconds, pool: shared.seconds, oneInShards: oneInShards.seconds },
      processorSeconds: { one: one.processor, pool: shared.processor, oneInShards: oneInShards.processor },
    };
  } finally {
    await Promise.all([alone, ...pool].map((one) => one.close()));
    await rm(scratch, { recursive: true, force: true });
  }
}
