/** Shared parts of the tests of a critic in shards: the training data, and the comparison of results. */

import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from 'vitest';
import type { Datum, PlanRequest } from '../../../trainer/update-request.ts';
import type { NewLora, UpdateSettings } from '../../../protocol/algorithm.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { asSampled, qwen3Dir } from '../tiny-policy.ts';
import { carryOut, type Who } from './parts.ts';

export const critic = {
  learningRate: 3e-3,
  minibatches: 1,
  maxGradNorm: 1,
  weightDecay: 0.01,
  betas: [0.9, 0.95] as const,
  epsilon: 1e-8,
};
export const algorithm: UpdateSettings = {
  advantage: 'gae',
  lambd: 0.95,
  critic,
  learningRate: 1e-3,
  epochs: 2,
  minibatches: 2,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 1,
  weightDecay: 0.01,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 96,
};

/** Rollouts of two groups; the last rollout has two sequences. */
export const sampled = await asSampled(qwen3Dir, [40, 23, 61, 12, 33, 50, 18, 44]);
export const data: Datum[] = sampled.map((one, i) => ({
  ...one,
  credit: { reward: Math.min(i, 6) % 3, group: `g${Math.min(i, 6) % 2}`, rollout: `r${Math.min(i, 6)}` },
}));

export const requestIn = (dir: string, shards: number, more: Partial<PlanRequest> = {}): PlanRequest => ({
  dir: path.join(dir, 'update'),
  shards,
  fromDir: qwen3Dir,
  toDir: path.join(dir, 'v1'),
  toVersion: 1,
  data,
  algorithm,
  critic: { base: qwen3Dir, seed: 5 },
  input: 'this',
  ...more,
});

export const lora = { rank: 2, alpha: 4, targetModules: ['q_proj', 'down_proj'] as const };
export const policyLora: NewLora = { ...lora, seed: 3 };
/** Which of policy and critic is fully trained, and which as an adapter. */
export const kinds: ReadonlyArray<readonly [string, Partial<PlanRequest>]> = [
  ['both whole', {}],
  ['an adapter of the policy', { lora: policyLora }],
  ['an adapter of the critic', { critic: { base: qwen3Dir, seed: 5, lora } }],
  ['two adapters', { lora: policyLora, critic: { base: qwen3Dir, seed: 5, lora } }],
];

/** Digests of all files of a checkpoint: a difference of the bytes themselves would take minutes to print. */
export async function bytesOf(dir: string): Promise<Record<string, string>> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true })
    .flatMap((one) => (one.isFile() ? [path.relative(dir, path.join(one.parentPath, one.name))] : []))
    .sort();
  return Object.fromEntries(
    await Promise.all(
      files.map(
        async (name) =>
          [
            name,
            createHash('sha256')
              .update(await readFile(path.join(dir, name)))
              .digest('hex'),
          ] as const,
      ),
    ),
  );
}

export async function whole(request: PlanRequest, who: Who): Promise<Record<string, string>> {
  await carryOut(request, await who(0, 'step').planUpdate(request), who);
  return bytesOf(request.toDir);
}

export const moments = (dir: string) => readSafetensors(path.join(dir, 'optimizer.safetensors'));

/** Largest difference between two sets of tensors, divided by their largest number. */
export function apart(a: ReadonlyMap<string, { data: Float32Array }>, b: typeof a): number {
  let [off, largest] = [0, 0];
  expect([...a.keys()].sort()).toEqual([...b.keys()].sort());
  for (const [name, { data: values }] of a)
    for (const [i, x] of values.entries())
      [off, largest] = [Math.max(off, Math.abs(x - b.get(name)!.data[i]!)), Math.max(largest, Math.abs(x))];
  expect(largest).toBeGreaterThan(0);
  return off / largest;
}
