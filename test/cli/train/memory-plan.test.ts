/** Hunts a plan that leaves out what memory is made of, or fails for a policy that is not here. */

import { join } from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { resolveRunConfig } from '../../../activities/run/run-config.ts';
import { engineMemory, memoryLines } from '../../../cli/train/memory-plan.ts';
import { readModelConfig } from '../../../trainer/model/describe-policy.ts';

const starter = join(packageRoot, 'examples', 'starter');
const config = (over: object = {}) =>
  resolveRunConfig({ run: 'r', steps: 1000, policy: { base: starter }, task: { name: 'swe-mini' }, batch: { tasks: 7, samples: 4 }, ...over }, '/');
const env = { LONGHAUL_KV_CACHE_MIB: '64', LONGHAUL_GPU_WORKERS: '1', LONGHAUL_RETENTION: '2d' };

it('says what the bounds are, and by which settings they change', async () => {
  const [memory = '', disk = '', ...rest] = await memoryLines(config(), env);
  expect(rest).toEqual([]);
  expect(memory).toMatch(/^memory: the GPU worker takes up to .* cached keys and values at most 64 MiB \(LONGHAUL_KV_CACHE_MIB\), a pass of 8192 tokens/);
  expect(disk).toMatch(/kept until 48h after it closed \(LONGHAUL_RETENTION\).* in 1000 steps \(npx longhaul prune\)$/);
});

it('counts what is trained: all weights, or an adapter over one copy', async () => {
  const model = await readModelConfig(starter);
  const weights = (over: object) => engineMemory(model, config(over), env).weights;
  expect(weights({}) / weights({ policy: { base: starter, lora: { rank: 4 } } })).toBe(2);
});

it('leaves out what it cannot know', async () => {
  expect(await memoryLines(config({ policy: { base: '/nowhere' } }), env)).toEqual([expect.stringMatching(/^disk: /)]);
});
