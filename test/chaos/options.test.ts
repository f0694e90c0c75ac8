/** Hunts a `chaos` that starts work with options that it cannot use. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { packageRoot } from '../../scripts/setup/paths.mjs';
import { ownEnvironment } from '../../chaos/stage.ts';
import { runCommandLine } from '../../cli/run.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-chaos-options-'));
afterAll(() => rmSync(dir, { recursive: true }));

const config = join(packageRoot, 'examples', 'environments', 'word-problems.yaml');

it.each([
  [['--kills', '0'], '--kills: "0" cannot be used; give a whole number from 1 to 10000'],
  [['--kills', 'many'], '--kills: "many" cannot be used'],
  [['--kills', '1.5'], '--kills: "1.5" cannot be used'],
  [['--seed', '-1'], '--seed: "-1" cannot be used; give a whole number from 0'],
  [['--seed', ''], '--seed: "" cannot be used'],
  [['--dir', dir], 'cannot be used; give a folder that is empty or does not exist'],
  [['--set', 'steps=2'], '--set: "steps=2" cannot be used; give a configuration too'],
  [[join(packageRoot, 'examples', 'eval.yaml')], 'give the configuration of a run'],
  [[config, '--set', 'training.mode=async'], 'training.mode: "async" cannot be used; give sync'],
  [[config, '--set', 'budget.tokens=1000'], 'budget: '],
  [
    [config, '--set', 'judges={j: {endpoint: {baseUrl: "http://127.0.0.1:1/v1", model: m}}}'],
    'judges: "j" cannot be used',
  ],
  [[config, '--set', 'task.options.train=nowhere.jsonl'], 'nowhere.jsonl'],
  [['--dir', import.meta.filename], 'cannot be used; give a folder that is empty or does not exist (EEXIST'],
])('%j is refused with its remedy', async (args, message) => {
  writeFileSync(join(dir, 'something'), '');
  const said: string[] = [];
  const around = {
    out: () => undefined,
    err: (text: string) => said.push(text),
    env: {},
    cwd: dir,
    signal: new AbortController().signal,
  };
  expect(await runCommandLine(['chaos', ...args], around)).toBe(2);
  expect(said.join('')).toContain(message);
});

it("leaves the caller's cluster, roles and folder alone", () => {
  const env = ownEnvironment(
    {
      PATH: '/bin',
      TEMPORAL_ADDRESS: 'a:1',
      TEMPORAL_PROFILE: 'p',
      LONGHAUL_ROLES: 'gpu',
      LONGHAUL_HOME: '/x',
      LONGHAUL_MODULE_PLACES: '/own',
      LONGHAUL_GPU_WORKERS: 'generate,train',
      LONGHAUL_CACHE: '/c',
    },
    join(dir, 'own'),
  );
  expect(env).toEqual({
    PATH: '/bin',
    LONGHAUL_CACHE: '/c',
    LONGHAUL_HOME: join(dir, 'own', '.longhaul'),
    LONGHAUL_GPU_WORKERS: '1',
    LONGHAUL_RUN_PLACES: join(dir, 'own'),
    TEMPORAL_CONFIG_FILE: join(dir, 'own', 'temporal.toml'),
  });
});
