/**
 * Hunts an update that stays incomplete after a killed process: of several real processes, one gets SIGKILL in the
 * middle of a shard. Not asserted: the moment of the kill; whatever was written by then, the other process ends in the
 * same bits.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { readCheckpointRecord } from '../../../trainer/checkpoints/checkpoint.ts';
import type { PlannedUpdate } from '../../../trainer/update-request.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';

const program = fileURLToPath(new URL('../../../benchmarks/pool-process.ts', import.meta.url));

class WorkerProcess {
  readonly child: ChildProcess = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...process.env, TF_NUM_INTRAOP_THREADS: '1' },
  });
  readonly #lines = createInterface({ input: this.child.stdout! })[Symbol.asyncIterator]();

  async call<T>(call: string, given: object): Promise<T> {
    this.child.stdin!.write(`${JSON.stringify({ call, ...given })}\n`);
    const { done, value } = await this.#lines.next();
    if (done) throw new Error('killed');
    const answer = JSON.parse(value) as T & { error?: string };
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await gone;
  }
}

/** The worker that is never killed: it continues each update. */
let other: WorkerProcess;
let dying: WorkerProcess;
beforeAll(() => {
  other = new WorkerProcess();
});
beforeEach(async () => {
  dying = new WorkerProcess();
  await Promise.all([dying, other].map((worker) => worker.call('used', {})));
});
afterEach(() => dying.kill());
afterAll(() => other.kill());

const algorithm = {
  learningRate: 1e-3,
  epochs: 2,
  minibatches: 1,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.999],
  epsilon: 1e-8,
  microBatchTokens: 256,
};
const requestIn = (dir: string, more: object = {}) => ({
  made: { rollouts: 16, tokens: 96, vocabulary: 500 },
  fromDir: qwen3Dir,
  toDir: path.join(dir, 'v1'),
  toVersion: 1,
  algorithm,
  dir: path.join(dir, 'parts'),
  shards: 2,
  ...more,
});

async function carryOut(worker: WorkerProcess, request: ReturnType<typeof requestIn>): Promise<void> {
  const { plan, rounds } = await worker.call<PlannedUpdate>('plan', request);
  for (const [round, shards] of rounds.entries()) {
    const at = { dir: request.dir, plan, round };
    for (let shard = 0; shard < shards; shard++) await worker.call('shard', { ...at, shard });
    await worker.call('step', at);
  }
}

const lora = { rank: 2, alpha: 4, targetModules: ['q_proj', 'down_proj'] };
const critic = {
  algorithm: {
    ...algorithm,
    advantage: 'gae',
    lambd: 0.95,
    critic: { learningRate: 1e-3, maxGradNorm: 1, weightDecay: 0, betas: [0.9, 0.999], epsilon: 1e-8 },
  },
  critic: { base: qwen3Dir, seed: 5, lora },
};

test.each<[string, object, number]>([
  ['a shard', {}, 0],
  ['a shard of a critic', critic, 0],
  ["a shard of the policy, after a critic's rounds", { ...critic, lora: { ...lora, seed: 3 } }, 2],
])(
  'a worker that is killed in the middle of %s leaves nothing that the next one stumbles over',
  (_, more, killedIn) =>
    inScratch(async (dir) => {
      const reference = requestIn(path.join(dir, 'reference'), more);
      await carryOut(other, reference);
      const request = requestIn(path.join(dir, 'disturbed'), more);
      const { plan } = await dying.call<PlannedUpdate>('plan', request);
      for (let round = 0; round <= killedIn; round++) {
        const at = { dir: request.dir, plan, round };
        await dying.call('shard', { ...at, shard: 0 });
        if (round === killedIn) break;
        await dying.call('shard', { ...at, shard: 1 });
        await dying.call('step', at);
      }
      const cut = dying.call('shard', { dir: request.dir, plan, round: killedIn, shard: 1 }).catch(() => undefined);
      await sleep(30);
      await dying.kill();
      await cut;
      await carryOut(other, request);
      const [made, expected] = await Promise.all([request, reference].map(({ toDir }) => readCheckpointRecord(toDir)));
      expect(made?.sha256).toBe(expected?.sha256);
      expect(made?.optimizer?.sha256).toBe(expected?.optimizer?.sha256);
      expect(made?.critic).toEqual(expected?.critic);
      const [own, wanted] = await Promise.all(
        [request, reference].map(({ toDir }) => readCheckpointRecord(path.join(toDir, 'critic'))),
      );
      expect(own).toEqual(wanted);
      expect(readdirSync(request.dir).filter((name) => !name.includes('.partial-'))).toEqual(['plan']);
    }),
  60_000,
);
