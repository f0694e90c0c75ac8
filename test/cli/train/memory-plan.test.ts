/** Hunts a plan that leaves out parts of the memory, or fails for a policy that is not on this machine. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { resolveRunConfig } from '../../../config/run-config.ts';
import { engineMemory, memoryLines } from '../../../cli/train/memory-plan.ts';
import { readModelConfig } from '../../../trainer/model/describe-policy.ts';

const home = mkdtempSync(join(tmpdir(), 'longhaul-plan-'));
afterEach(() => rmSync(home, { recursive: true, force: true }));
const starter = join(packageRoot, 'examples', 'starter');
const config = (over: object = {}) =>
  resolveRunConfig(
    {
      run: 'r',
      steps: 1000,
      policy: { base: starter },
      task: { name: 'swe-mini' },
      batch: { tasks: 7, samples: 4 },
      ...over,
    },
    '/',
  );
const env = { LONGHAUL_KV_CACHE_MIB: '64', LONGHAUL_GPU_WORKERS: '1', LONGHAUL_RETENTION: '2d' };

it('has the bounds, and the settings that change them', async () => {
  const [context = '', memory = '', disk = '', ...rest] = await memoryLines(config(), env, home);
  expect(context).toMatch(
    /^context: \d+ tokens of prompt and answers, .* of keys and values each, and \d+ of them fit the cache at once; the policy has 1024 here \(max_position_embeddings of its config.json is 1024\)$/,
  );
  expect(rest).toEqual([]);
  expect(memory).toMatch(
    /^memory: the GPU worker takes up to .* cached keys and values at most 64 MiB \(LONGHAUL_KV_CACHE_MIB\), a pass of 8192 tokens/,
  );
  expect(disk).toMatch(/kept until 48h after it closed \(LONGHAUL_RETENTION\).* in 1000 steps \(npx longhaul prune\)$/);
});

it('counts what is trained: all weights, or an adapter over one copy', async () => {
  const model = await readModelConfig(starter);
  const weights = (over: object) => engineMemory(model, config(over), env).weights;
  expect(weights({}) / weights({ policy: { base: starter, lora: { rank: 4 } } })).toBe(2);
});

it('uses the settings of the running stack, whatever this shell has, and no retention of an external cluster', async () => {
  const state = { format: 1, settings: { LONGHAUL_KV_CACHE_MIB: '128', LONGHAUL_RETENTION: '3d' } };
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'stack.json'), JSON.stringify({ ...state, ports: { temporal: 1, ui: 2 } }));
  const [, memory, disk] = await memoryLines(config(), env, home);
  expect(memory).toContain('at most 128 MiB (LONGHAUL_KV_CACHE_MIB)');
  expect(disk).toContain('kept until 72h after it closed (LONGHAUL_RETENTION)');
  writeFileSync(join(home, 'stack.json'), JSON.stringify(state));
  expect((await memoryLines(config(), env, home))[2]).toContain("kept until its namespace's retention is over, and");
});

it('leaves out what it cannot know', async () => {
  expect(await memoryLines(config({ policy: { base: '/nowhere' } }), env, home)).toEqual([
    expect.stringMatching(/^disk: /),
  ]);
});
