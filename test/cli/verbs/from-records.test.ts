/**
 * Hunts verbs that need a server although the records are enough, show nothing for missing work, or answer a broken
 * disk with a stack trace.
 */

import { openedConfig, someTasks } from '../../support/some-tasks.ts';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { OutcomeRecord, RunEnd, RunRecord, StepEntry } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { whyUnknown } from '../../../cli/train/live-run.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { stackPaths } from '../../../connection/stack-paths.ts';
import { writeStackState } from '../../../connection/stack-state.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul records-'));
  vi.stubEnv('LONGHAUL_HOME', join(directory, 'home'));
  vi.stubEnv('TEMPORAL_ADDRESS', '');
  // A stack that was up, and is down now.
  const state = {
    format: 1,
    supervisor: { pid: 0, startTime: '' },
    since: '',
    address: '127.0.0.1:1',
    namespace: 'default',
    ui: '',
    ports: { temporal: 1, ui: 1 },
    phase: 'stopping',
    processes: [],
  } as const;
  writeStackState(stackPaths(join(directory, 'home')).state, state);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

async function call(...args: string[]) {
  let [out, err] = ['', ''];
  const exitCode = await runCommandLine([...args, '--json'], {
    out: (text) => {
      out += text;
    },
    err: (text) => {
      err += text;
    },
    env: process.env,
    cwd: directory,
    signal: new AbortController().signal,
  });
  return { exitCode, document: JSON.parse(out) as { rollouts?: unknown[]; error?: Record<string, unknown> }, err };
}

const evaluation = (passRate: number) => ({ passRate, greedyPassRate: null, rollouts: 4, byFamily: {} });

/** A run of two steps, the second one running unless the run has ended. */
async function leaveRun(end?: RunEnd['status'], config?: { readonly steps: number }): Promise<void> {
  const store = openSqliteStore(join(directory, 'home', 'store'));
  const policy = { base: '/p', parameters: 1, vocabulary: 1 };
  const task = { name: 'swe-mini', train: 100, heldOut: 4 };
  await store.putOnce<RunRecord>(keys.run('r'), {
    run: 'r',
    runDir: directory,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy,
    task,
    tasks: someTasks,
    ...(config && { config: openedConfig({ policy: { base: '/p' }, task: { name: 't' }, ...config }) }),
  });
  await store.putOnce(keys.evaluation('r', 0), { step: 0, evaluation: evaluation(0.25) });
  const record = {
    step: 1,
    policyVersion: 1,
    rewardMean: 1,
    passRate: 1,
    groups: 1,
    valid: 2,
    masked: {},
    dropped: {},
    sampledTokens: 1,
    trainedTokens: 1,
    prefixBreaks: 0,
    seconds: { rollout: 1, train: 1, total: 2 },
    learningRate: 1,
    loss: 0,
    kl: 0,
    entropy: 0,
    gradNorm: 0,
    logprobDrift: { meanAbs: 0, maxAbs: 0 },
  };
  await store.putOnce<StepEntry>(keys.step('r', 1), {
    record,
    policy: { uri: 'file:///p', version: 1 },
    sha256: '',
    keep: true,
  });
  const ids = [1, 2].map((step) => `train/r/step-${step}/swe-mini-train-0/0`);
  await store.append(
    ids.map((rollout) => ({ run: 'r', rollout, attempt: 1, event: 'dispatched', at: '2026-01-01T00:00:00.000Z' })),
  );
  const outcome = {
    rollout: ids[0] ?? '',
    task: 'swe-mini-train-0',
    attempt: 1,
    turns: 0,
    status: 'graded',
    reward: 1,
    passed: true,
    finish: 'finish-tool',
    failure: null,
    reason: '',
  } as const;
  await store.putOnce<OutcomeRecord>(keys.outcome(outcome.rollout), outcome as unknown as OutcomeRecord);
  if (end)
    await store.putOnce<RunEnd>(keys.runEnd('r'), { status: end, finishedAt: '2026-01-01T01:00:00.000Z', message: '' });
  await store.close();
}

test('a run that has ended is watched without a server, and a running one is not', async () => {
  await leaveRun();
  expect(await call('watch', 'r')).toMatchObject({ exitCode: 3, document: { error: { name: 'Unreachable' } } });
  await leaveRun('completed');
  expect(await call('watch', 'r')).toMatchObject({ exitCode: 0, document: { runId: 'r', status: 'completed' } });
});

test('the events of a stopped run have an end for each rollout, as its accounting does', async () => {
  await leaveRun('cancelled');
  const { document } = await call('rollouts', 'r');
  const masked = [1, 2].map((step) => ({
    rollout: `train/r/step-${step}/swe-mini-train-0/0`,
    attempt: 1,
    event: 'masked',
    at: '2026-01-01T01:00:00.000Z',
    detail: 'run-cancelled',
  }));
  expect(document).toMatchObject({
    accounting: { dispatched: 2, masked: 2, lost: 0 },
    events: [{ event: 'dispatched' }, { event: 'dispatched' }, ...masked],
  });
});

test('a step that does not exist is refused by name, and the current one is not', async () => {
  await leaveRun();
  expect((await call('rollouts', 'r', '--step', '1')).document.rollouts?.length).toBe(1);
  expect(await call('rollouts', 'r', '--step', '2')).toMatchObject({ exitCode: 0, document: { rollouts: [] } });
  for (const verb of ['rollouts', 'times']) {
    const error = {
      name: 'UserInputError',
      field: '--step',
      value: '7',
      remedy: 'give one from 1 to 1: the run has no rollouts of other steps',
    };
    expect(await call(verb, 'r', '--step', '7')).toMatchObject({ exitCode: 2, document: { error } });
  }
});

async function shown() {
  let [out, err] = ['', ''];
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      err += text;
    },
    env: process.env,
    cwd: directory,
    signal: new AbortController().signal,
  };
  return { exitCode: await runCommandLine(['show', 'r'], around), out, err };
}

test('a run whose stack is down is shown with its planned steps, and a note names what is down', async () => {
  await leaveRun(undefined, { steps: 4 });
  const { exitCode, out, err } = await shown();
  expect([exitCode, /^step 1\/4 /mu.test(out)]).toEqual([0, true]);
  expect(err).toMatch(
    /^run r has not ended, but its current state is unknown: The stack in .*home is not up\. Start the stack: npx longhaul up --detach\. Or name a cluster: by TEMPORAL_ADDRESS, by a Temporal profile, or in a program by connect\(\{ address \}\)$/mu,
  );
  const store = openSqliteStore(join(directory, 'home', 'store'));
  await store.putOnce(keys.changes('r', '1'), [
    { at: '2026-01-01T00:30:00.000Z', step: 1, field: 'steps', from: 4, to: 12 },
  ]);
  await store.close();
  expect((await shown()).out).toMatch(/^step {2}1\/12 /mu);
});

test('a run without a recorded plan is shown without a number of planned steps', async () => {
  await leaveRun();
  expect((await shown()).out).toMatch(/^step 1 · /mu);
});

test('only for an unreachable server the remedy is to start it', () => {
  const of = (code: number) =>
    whyUnknown('r', new ServiceError('Failed to query', { cause: Object.assign(new Error(), { code }) }));
  expect(of(14)).toBe('Failed to query; start the stack: npx longhaul up --detach');
  expect(of(4)).toBe('no answer within 10 s; check the processes with: npx longhaul ps');
  expect(of(7)).toBe('Failed to query');
  expect(whyUnknown('r', new WorkflowNotFoundError('gone', 'train/r', undefined))).toMatch(
    /^Temporal has no workflow train\/r: it was started on another server/,
  );
  expect(whyUnknown('r', new TypeError('bad profile'))).toBe('bad profile');
});

test('the first evaluation has the same name as in `watch`', async () => {
  await leaveRun('completed');
  let out = '';
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: () => undefined,
    env: process.env,
    cwd: directory,
    signal: new AbortController().signal,
  };
  expect(await runCommandLine(['show', 'r'], around)).toBe(0);
  expect(out).toMatch(/^before training: 25\.0% at temperature 1/m);
});

test('damaged records are named with the remedy, and without a stack trace', async () => {
  mkdirSync(join(directory, 'home', 'store'), { recursive: true });
  writeFileSync(
    join(directory, 'home', 'store', 'store.sqlite'),
    'no database at all, and long enough to be looked at as one',
  );
  const { exitCode, document, err } = await call('runs');
  expect([exitCode, document.error?.['name']]).toEqual([3, 'StoreCorrupt']);
  expect(err).toMatch(/restore the file from a copy/);
  expect(err).not.toMatch(/\n\s+at /);
});
