/**
 * The configurations of published recipes in `examples/recipes/`. Their models and records are on a hub. Asserted: where
 * the hub cannot be reached, a dry run's check says so, accepts everything else, and still refuses what is wrong. Not
 * asserted: training with them.
 */

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { afterAll, beforeAll, expect, it, vi } from 'vitest';

import { checkInputs, checkPlanned } from '../../../cli/train/check-inputs.ts';
import { planLines } from '../../../cli/train/plan.ts';
import { readRunConfig } from '../../../config/read-config.ts';

const folder = fileURLToPath(new URL('../../../examples/recipes', import.meta.url));
const NAMES = ['sa-swe-32b', 'skyrl-agent-14b', 'skyrl-agent-7b', 'skyrl-agent-8b', 'skyrl-sql-7b'];
const home = mkdtempSync(join(tmpdir(), 'longhaul-no-hub-'));

beforeAll(() => {
  vi.stubEnv('HF_HUB_OFFLINE', '1');
  vi.stubEnv('HF_HOME', home);
  vi.stubEnv('HF_HUB_CACHE', undefined);
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(home, { recursive: true });
});

const configOf = async (name: string, set: readonly string[] = []) =>
  await readRunConfig(join(folder, `${name}.yaml`), { set: [...set] }, folder);

it('are these', () => expect(readdirSync(folder).toSorted()).toEqual(NAMES.map((name) => `${name}.yaml`)));

it.each(NAMES)('%s is planned without its hub', async (name) => {
  const config = await configOf(name);
  const { tasks, unchecked } = await checkPlanned(config);
  expect(tasks).toBeUndefined();
  expect(unchecked).toEqual([
    expect.stringMatching(/^\S+\.parquet of dataset .* is not in the cache .* HF_HUB_OFFLINE/u),
    expect.stringMatching(/^model \S+ \(revision main\) is not in the cache .* HF_HUB_OFFLINE/u),
  ]);
  expect(planLines(config, tasks)[1]).toBe(`policy ${config.policy.base}`);
  await expect(checkInputs(config)).rejects.toMatchObject({ name: 'DataUnavailable' });
});

it('are refused for what is wrong all the same', async () => {
  const wrong = await configOf('sa-swe-32b', ['task.options.image=x/{id}']);
  await expect(checkPlanned(wrong)).rejects.toThrow('there is no {id}');
  const missing = await configOf('sa-swe-32b', ['policy.base=/no/such/policy']);
  await expect(checkPlanned(missing)).rejects.toMatchObject({ field: 'policy.base' });
});
