/** Hunts runs that start with inputs that cannot work, and results of an old run shown for a new configuration. */

import { fileUri } from '../../../protocol/policy-uri.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import type { RunEnd, RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { resolveRunConfig } from '../../../config/run-config.ts';
import { type RefusingServer, startRefusingServer } from '../../support/refusing-server.ts';

let directory: string;
let server: RefusingServer;
beforeAll(async () => {
  server = await startRefusingServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-train-'));
  vi.stubEnv('LONGHAUL_HOME', join(directory, 'home'));
  // A call that reaches Temporal fails with an error that shows it, and starts no server.
  vi.stubEnv('TEMPORAL_ADDRESS', server.address);
  writeFileSync(join(directory, 'first.yaml'), stringify(settings));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

const settings = { seed: 1, policy: { base: 'policy' }, task: { name: 'swe-mini', train: 100 } };

function makePolicy(...files: string[]): void {
  mkdirSync(join(directory, 'policy'));
  for (const file of files) writeFileSync(join(directory, 'policy', file), '{}');
}

async function train(args: string[] = [], signal = new AbortController().signal, cwd = directory) {
  let [out, err] = ['', ''];
  const exitCode = await runCommandLine(['train', join(directory, 'first.yaml'), '--json', ...args], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: process.env,
    cwd,
    signal,
  });
  return {
    exitCode,
    error: (JSON.parse(out) as { error?: Record<string, unknown> }).error,
    document: JSON.parse(out) as object,
    err,
  };
}

/** The run `first` as its workflow leaves it in the store, and in its folder if `config` is given. */
async function leaveRun({ end, config = true }: { end?: RunEnd['status']; config?: boolean }): Promise<void> {
  const runDir = join(directory, 'runs', 'first');
  const resolved = resolveRunConfig(
    { ...settings, run: 'first', policy: { base: join(directory, 'policy') } },
    directory,
  );
  const store = openSqliteStore(join(directory, 'home', 'store'));
  await store.putOnce<RunRecord>(keys.run('first'), {
    run: 'first',
    runDir,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: { base: resolved.policy.base, parameters: 1, vocabulary: 1 },
    task: { name: 'swe-mini', train: 100, heldOut: 200 },
    tasks: someTasks,
  });
  if (end)
    await store.putOnce<RunEnd>(keys.runEnd('first'), {
      status: end,
      finishedAt: '2026-01-01T01:00:00.000Z',
      message: 'why',
    });
  await store.close();
  mkdirSync(runDir, { recursive: true });
  if (config) writeFileSync(join(runDir, 'config.yaml'), stringify(resolved));
}

test('a policy without its files, or an unknown task, is refused before anything is started', async () => {
  expect(await train()).toMatchObject({
    exitCode: 2,
    error: { field: 'policy.base', remedy: expect.stringContaining('config.json') },
  });
  makePolicy('config.json');
  expect(await train()).toMatchObject({
    exitCode: 2,
    error: { field: 'policy.base', remedy: expect.stringContaining('tokenizer.json') },
  });
  const unknown = await train(['--set', 'task.name=nope']);
  expect(unknown).toMatchObject({
    exitCode: 2,
    error: { field: 'task.name', value: 'nope', remedy: expect.stringContaining('swe-mini') },
  });
  expect(existsSync(join(directory, 'home'))).toBe(false);
});

test('the error of a configuration copied from examples/ names the path of the starter', async () => {
  const { exitCode, error } = await train(['--set', 'policy.base=starter']);
  expect([exitCode, error?.['field']]).toEqual([2, 'policy.base']);
  const [, named = ''] = /the starter is (\S+)$/.exec(String(error?.['remedy'])) ?? [];
  expect(existsSync(join(named, 'config.json'))).toBe(true);
});

test('paths of a configuration are resolved from its folder, wherever the command is called', async () => {
  makePolicy('config.json', 'tokenizer.json');
  const cwd = join(directory, 'elsewhere');
  mkdirSync(cwd);
  const sets = ['algorithm={ advantage: gae, critic: { base: policy } }', 'batch.samples=1'].flatMap((set) => [
    '--set',
    set,
  ]);
  const { document } = await train(['--dry-run', ...sets], undefined, cwd);
  const base = fileUri(join(directory, 'policy'));
  expect(document).toMatchObject({ policy: { base }, algorithm: { critic: { base } }, dir: join(cwd, 'runs') });
});

test('an unknown tag of YAML is refused, not read as a text', async () => {
  expect(await train(['--set', 'policy.base=!env POLICY'])).toMatchObject({
    exitCode: 2,
    error: { field: '--set', remedy: expect.stringMatching(/Unresolved tag: !env/) },
  });
});

test('a setting that is no YAML is bad input', async () => {
  expect(await train(['--set', 'seed=['])).toMatchObject({ exitCode: 2, error: { field: '--set', value: 'seed=[' } });
});

test.each([
  [['--set', 'seed=2'], 'seed', 2],
  [['--set', 'task.train=99'], 'task.train', 99],
  [['--set', 'algorithm.clipLow=0.1'], 'algorithm.clipLow', 0.1],
])('a run is not shown or joined for another configuration: %j', async (args, field, value) => {
  makePolicy('config.json', 'tokenizer.json');
  await leaveRun({ end: 'completed' });
  const remedy = expect.stringMatching(/run first exists with .*--run-id/);
  expect(await train(args)).toMatchObject({ exitCode: 2, error: { name: 'UserInputError', field, value, remedy } });
});

test('without its folder, the settings in the run’s record are compared', async () => {
  await leaveRun({ end: 'completed', config: false });
  expect(await train(['--set', 'seed=2'])).toMatchObject({ exitCode: 2, error: { field: 'seed', value: 2 } });
  expect(await train()).toMatchObject({ exitCode: 0 });
});

test.each([
  ['completed', 0],
  ['failed', 1],
  ['cancelled', 1],
] as const)('a run that has %s is shown, without its policy or a server', async (end, exitCode) => {
  await leaveRun({ end });
  const shown = await train();
  expect(shown.exitCode).toBe(exitCode);
  if (exitCode === 0) expect(shown.document).toMatchObject({ runId: 'first', status: 'completed' });
  else
    expect(shown.error).toMatchObject({
      name: 'JobFailed',
      message: `run first ${end}: why; resume it from its records with: npx longhaul train CONFIG --again`,
      details: { status: end },
    });
});

test.each(['failed', 'cancelled'] as const)(
  'a run that has %s is shown with the command that resumes it, and resumes with --again',
  async (end) => {
    makePolicy('config.json', 'tokenizer.json');
    await leaveRun({ end });
    expect((await train()).err).toContain(`run first ${end}`);
    const again = await train(['--again']);
    // It comes as far as the server, which refuses it.
    expect(again).toMatchObject({ exitCode: 3, error: { name: 'Unreachable' } });
  },
);

test('a run that has completed is not resumed', async () => {
  await leaveRun({ end: 'completed' });
  const remedy = expect.stringMatching(
    /it has completed, and there is nothing to resume: leave --again out to show it/,
  );
  expect(await train(['--again'])).toMatchObject({ exitCode: 2, error: { field: '--again', value: 'first', remedy } });
});

test('a run without an end is attached to, which needs the server', async () => {
  await leaveRun({});
  expect(await train()).toMatchObject({ exitCode: 3, error: { name: 'Unreachable' } });
});

test('Ctrl-C before the start does not report that the run continues', async () => {
  makePolicy('config.json', 'tokenizer.json');
  const { exitCode, error } = await train([], AbortSignal.abort());
  expect(exitCode).toBe(130);
  expect(error).toMatchObject({ name: 'Interrupted', message: expect.stringMatching(/before run first was started/) });
});
