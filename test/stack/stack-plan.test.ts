/** Hunts a worker that is started without the options of its role, and call stacks that cannot be switched on. */

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { stackPlan } from '../../stack/stack-plan.ts';

const elsewhere = { TEMPORAL_ADDRESS: 'temporal.example:7233' };
const argumentsOf = (env: NodeJS.ProcessEnv, role: string) =>
  stackPlan(env)
    .workers({})
    .find(({ name }) => name === role)?.args ?? [];
const preloadOf = (args: readonly string[]) => args[args.indexOf('--import') + 1] ?? '';

/** Why: Node would refuse an option that another version of V8 does not have, and the orchestrator would never start. */
it("the orchestrator's heap is kept small and collected early, by options that this Node takes", () => {
  const args = argumentsOf(elsewhere, 'orchestrator');
  const options = args.slice(0, args.indexOf('--import'));
  expect(options).toEqual([
    expect.stringMatching(/^--heap-growing-percent=\d+$/),
    expect.stringMatching(/^--max-semi-space-size=\d+$/),
  ]);
  expect(spawnSync(process.execPath, [...options, '-p', '1'], { encoding: 'utf8', timeout: 30_000 })).toMatchObject({
    stdout: '1\n',
    stderr: '',
  });
});

it.each(['init', 'agent-run', 'reward'])(
  'the heap of %s has a bound for garbage in each of its spaces, by options that this Node takes',
  (role) => {
    const args = argumentsOf(elsewhere, role);
    const options = args.filter((arg) => /^--.*=\d+$/.test(arg));
    expect(options.map((option) => option.split('=')[0])).toEqual([
      '--initial-old-space-size',
      '--heap-growing-percent',
      '--min-semi-space-size',
      '--max-semi-space-size',
    ]);
    expect(spawnSync(process.execPath, [...options, '-p', '1'], { encoding: 'utf8', timeout: 30_000 })).toMatchObject({
      stdout: '1\n',
      stderr: '',
    });
  },
);

it('every worker has few arenas of memory, unless the environment says how many', () => {
  const arenasOf = (env: NodeJS.ProcessEnv) =>
    new Set(
      stackPlan({ ...elsewhere, ...env })
        .workers({})
        .map((worker) => worker.env['MALLOC_ARENA_MAX']),
    );
  expect(arenasOf({})).toEqual(new Set(['2']));
  expect(arenasOf({ MALLOC_ARENA_MAX: '8' })).toEqual(new Set(['8']));
});

it('the orchestrator alone runs without call stacks, unless they are asked for', () => {
  expect(existsSync(fileURLToPath(preloadOf(argumentsOf(elsewhere, 'orchestrator'))))).toBe(true);
  expect(argumentsOf({ ...elsewhere, LONGHAUL_CALL_STACKS: '1' }, 'orchestrator')).not.toContain('--import');
  expect(argumentsOf(elsewhere, 'gpu')).not.toContain('--import');
});

/** Asserts that threads load the module. That it works in Temporal's threads shows in the time that they take. */
it('threads of a process so started make no promise hooks; its main thread does', () => {
  const preload = preloadOf(argumentsOf(elsewhere, 'orchestrator'));
  const program = `
    const { Worker, isMainThread } = require('node:worker_threads');
    const made = () => { let n = 0; const stop = require('node:v8').promiseHooks.createHook({ init: () => { n += 1; } }); Promise.resolve(); stop(); return n; };
    if (isMainThread) { console.log('main', made() > 0); new Worker(__filename); } else console.log('thread', made() > 0);`;
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-hooks-'));
  writeFileSync(join(dir, 'program.cjs'), program);
  const { stdout } = spawnSync(process.execPath, ['--import', preload, join(dir, 'program.cjs')], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  rmSync(dir, { recursive: true });
  expect(stdout.trim().split('\n').sort()).toEqual(['main true', 'thread false']);
});
