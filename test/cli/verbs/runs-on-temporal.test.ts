/**
 * Hunts verbs that report success, or a stack trace, for a run that is unknown, refused or failed. The server and the
 * orchestrator's worker are real; no other worker runs.
 */

import { fileUri } from '../../../protocol/policy-uri.ts';
import { someTasks } from '../../support/some-tasks.ts';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { RunEnd, RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { exitCodeOf, UserInputError } from '../../../client/errors.ts';
import { Longhaul } from '../../../client/longhaul.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { followRun } from '../../../cli/train/follow.ts';
import { failureOf } from '../../../cli/train/run-failure.ts';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { putCatalog } from '../../../store/read-records.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

const directory = mkdtempSync(join(tmpdir(), 'longhaul-verbs-'));
const home = join(directory, 'home');
let server: PrivateServer;
let worker: ChildProcess;
let longhaul: Longhaul;

beforeAll(async () => {
  server = await startPrivateServer(join(directory, 'temporal'));
  vi.stubEnv('LONGHAUL_HOME', home);
  vi.stubEnv('TEMPORAL_ADDRESS', server.address);
  vi.stubEnv('LONGHAUL_RUN_PLACES', directory);
  const main = join(packageRoot, 'workers', 'main.ts');
  worker = spawn(process.execPath, [main, '--role', 'orchestrator'], { env: process.env, stdio: 'ignore' });
  longhaul = await Longhaul.connect({ address: server.address });
});
afterAll(async () => {
  await longhaul?.close();
  if (worker && worker.exitCode === null) {
    worker.kill('SIGKILL');
    await once(worker, 'exit');
  }
  await server?.stop();
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

const call = (...args: string[]) => callUntil(new AbortController().signal, ...args);

async function callUntil(signal: AbortSignal, ...args: string[]) {
  let out = '';
  const exitCode = await runCommandLine([...args, '--json'], {
    out: (text) => {
      out += text;
    },
    err: () => undefined,
    env: process.env,
    cwd: directory,
    signal,
  });
  return { exitCode, error: (JSON.parse(out) as { error?: Record<string, unknown> }).error };
}

function config(run: string, base: string) {
  return { run, dir: join(directory, 'runs'), policy: { base }, task: { name: 'swe-mini', train: 100 } };
}

/** As an opened run leaves it in the store. */
async function record(run: string, end?: RunEnd): Promise<void> {
  const store = openSqliteStore(join(home, 'store'));
  const policy = { base: '/p', parameters: 1, vocabulary: 1 };
  const task = { name: 'swe-mini', train: 100, heldOut: 200 };
  // The worker reads the catalog when it tries again to open a live run: it must be there.
  const catalog = await putCatalog({ sources: {} }, store);
  await store.putOnce<RunRecord>(keys.run(run), {
    run,
    runDir: directory,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy,
    task,
    tasks: { ...someTasks, catalog },
  });
  if (end) await store.putOnce<RunEnd>(keys.runEnd(run), end);
  await store.close();
}

test.each([[['pause', 'nope']], [['resume', 'nope']], [['cancel', 'nope']], [['set', 'nope', 'steps=9']]])(
  '%j names the run that does not exist',
  async (args) => {
    expect(await call(...args)).toMatchObject({
      exitCode: 2,
      error: { name: 'UserInputError', field: 'RUN', value: 'nope' },
    });
  },
);

test('a run that was refused before it started is exit code 2, and can be started again', async () => {
  const id = async () => (await longhaul.client.workflow.getHandle('train/refused').describe()).runId;
  const handle = await longhaul.train(config('refused', join(directory, 'nowhere')));
  const failure = failureOf('refused', await handle.result().catch((error: unknown) => error));
  expect(failure).toMatchObject({
    name: 'RunRefused',
    message: expect.stringMatching(/refused: policy.base: .*nowhere/),
  });
  expect(exitCodeOf(failure)).toBe(2);

  const first = await id();
  await longhaul.train(config('refused', join(directory, 'nowhere')));
  expect(await id()).toBe(first);
  await longhaul.train(config('refused', join(directory, 'nowhere')), { again: true });
  expect(await id()).not.toBe(first);
});

test('a refusal names its field, whatever caused it', () => {
  const refused = new UserInputError('policy.base', '/p', 'give another model: too wide', {
    cause: new Error('too wide'),
  });
  expect(failureOf('r', new Error('Workflow execution failed', { cause: refused })).message).toBe(
    'run r was refused: policy.base: "/p" cannot be used; give another model: too wide',
  );
  expect(
    failureOf(
      'r',
      new Error('Workflow execution failed', { cause: new Error('Activity failed', { cause: new Error('why') }) }),
    ).message,
  ).toMatch(/: why$/);
});

test('watching a run that failed is exit code 1', async () => {
  const handle = await longhaul.train(config('broke', join(directory, 'nowhere')));
  await handle.result().catch(() => undefined);
  await record('broke', { status: 'failed', finishedAt: '2026-01-01T01:00:00.000Z', message: 'the disk was full' });
  expect(await call('watch', 'broke')).toMatchObject({
    exitCode: 1,
    error: {
      name: 'JobFailed',
      message:
        'run broke failed: the disk was full; resume it from its records with: npx longhaul train CONFIG --again',
    },
  });
  for (const verb of ['pause', 'resume', 'cancel']) {
    expect(await call(verb, 'broke')).toMatchObject({
      exitCode: 2,
      error: { field: 'RUN', remedy: expect.stringContaining('it has ended') },
    });
  }
});

test('a live run reports what it refuses, and how to attach to it again', async () => {
  const base = join(directory, 'unfinished');
  // No file: opening the run is retried again and again, so that it stays alive.
  mkdirSync(join(base, 'config.json'), { recursive: true });
  writeFileSync(join(base, 'tokenizer.json'), 'not yet');
  await longhaul.train(config('live', base));
  expect(await call('set', 'live', 'foo=1')).toMatchObject({
    exitCode: 2,
    error: { field: 'k=v', value: 'foo=1', remedy: expect.stringContaining('foo: cannot be changed on a live run') },
  });
  // Another terminal, at the same time: nothing is recorded yet that it could be compared with.
  const remedy = expect.stringMatching(
    /run live began with 20; keep that, cancel it first, or give another run name/,
  ) as string;
  await expect(longhaul.train({ ...config('live', base), steps: 7 }, { again: true })).rejects.toMatchObject({
    field: 'steps',
    value: 7,
    remedy,
  });
  await expect(longhaul.train({ ...config('live', base), dir: '/elsewhere' })).resolves.toMatchObject({ run: 'live' });
  // It has not started, so it answers no change yet.
  expect(await callUntil(AbortSignal.timeout(1500), 'set', 'live', 'steps=30')).toMatchObject({
    exitCode: 130,
    error: { name: 'Interrupted', message: expect.stringContaining('npx longhaul show live') },
  });
  await record('live');
  expect(await callUntil(AbortSignal.abort(), 'watch', 'live')).toMatchObject({
    exitCode: 130,
    error: { name: 'Interrupted', message: 'run live continues; attach again with: npx longhaul watch live' },
  });
  const shown: string[] = [];
  const interrupt = new AbortController();
  const bar = (text: string) => {
    shown.push(text);
    interrupt.abort();
  };
  await expect(
    followRun(longhaul.client, 'live', async () => undefined, { line: () => undefined, bar }, interrupt.signal),
  ).rejects.toThrow();
  expect([shown[0], shown.at(-1)]).toEqual([expect.stringContaining('starting'), '']);
  expect(await call('cancel', 'live')).toMatchObject({ exitCode: 0 });
});

test('a rollout under an id of a program is steered by that id, and cancelled by its prefix too', async () => {
  const handle = await longhaul.startRollout(
    { task: 'swe-mini-train-0', policy: { uri: fileUri(directory), version: 0 } },
    'my-rollout',
  );
  const isPaused = async () => (await handle.query<{ paused: boolean }>('state')).paused;
  // The server's list has a delay.
  await vi.waitFor(async () => expect(await call('pause', 'my-rollout')).toEqual({ exitCode: 0, error: undefined }), {
    timeout: 60_000,
  });
  expect(await isPaused()).toBe(true);
  expect(await call('pause', 'my-rollout', '--at', 'step')).toMatchObject({
    exitCode: 2,
    error: { field: '--at', remedy: expect.stringContaining('only runs have steps') },
  });
  expect(await call('resume', 'my-rollout')).toEqual({ exitCode: 0, error: undefined });
  expect(await isPaused()).toBe(false);
  expect(await call('cancel', 'my-ro')).toEqual({ exitCode: 0, error: undefined });
  await handle.result().catch(() => undefined);
  expect(await call('resume', 'my-rollout')).toMatchObject({ exitCode: 2, error: { field: 'RUN' } });
});

test('a program that waits is killed: its run goes on, and the same call attaches to it', async () => {
  const base = join(directory, 'waited-for');
  mkdirSync(join(base, 'config.json'), { recursive: true });
  writeFileSync(join(base, 'tokenizer.json'), 'not yet');
  const settings = config('waited', base);
  const program = `
    import { Longhaul } from ${JSON.stringify(join(packageRoot, 'client', 'longhaul.ts'))};
    const longhaul = await Longhaul.connect({ address: ${JSON.stringify(server.address)} });
    const run = await longhaul.train(${JSON.stringify(settings)}, { again: true });
    process.stdout.write('waits');
    await run.result();`;
  const waiting = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  expect(String((await once(waiting.stdout, 'data'))[0])).toBe('waits');
  const described = () => longhaul.client.workflow.getHandle('train/waited').describe();
  const { runId } = await described();
  waiting.kill('SIGKILL');
  await once(waiting, 'exit');
  const again = await longhaul.train(settings, { again: true });
  expect(await described()).toMatchObject({ runId, status: { name: 'RUNNING' } });
  await again.cancel();
});
