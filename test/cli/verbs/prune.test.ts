/** Hunts a prune that removes records of running work, or that changes the answer of a verb. */

import { someTasks } from '../../support/some-tasks.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { GenerateRecord, OutcomeRecord, RunEnd, RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-prune-'));
  vi.stubEnv('LONGHAUL_HOME', join(directory, 'home'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

async function call(...args: string[]) {
  let out = '';
  const exitCode = await runCommandLine([...args, '--json'], {
    out: (text) => {
      out += text;
    },
    err: () => undefined,
    env: process.env,
    cwd: directory,
    signal: new AbortController().signal,
  });
  return {
    exitCode,
    out,
    document: JSON.parse(out) as {
      pruned?: Array<{ name: string; results: number }>;
      shrunk?: boolean;
      error?: Record<string, unknown>;
    },
  };
}

const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
const rolloutOf = (run: string) => `train/${run}/step-1/swe-mini-train-0/0`;

async function leaveRun(
  run: string,
  end?: { readonly status: RunEnd['status']; readonly hoursAgo: number },
): Promise<void> {
  const store = openSqliteStore(join(directory, 'home', 'store'));
  const policy = { base: '/p', parameters: 1, vocabulary: 1 };
  const rollout = rolloutOf(run);
  await store.putOnce<RunRecord>(keys.run(run), {
    run,
    runDir: directory,
    seed: 1,
    startedAt: hoursAgo(100),
    policy,
    task: { name: 'swe-mini', train: 100, heldOut: 4 },
    tasks: someTasks,
  });
  const turn = {
    version: 1,
    appended: [1],
    reset: false,
    sampled: [2],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'text', content: 'so' },
    command: { do: 'reply', message: 'call' },
  };
  for (const n of [1, 2])
    await store.putOnce<GenerateRecord>(
      keys.generate({ run, rollout, attempt: 1, task: '' }, n),
      turn as unknown as GenerateRecord,
    );
  const outcome = {
    rollout,
    task: 'swe-mini-train-0',
    attempt: 1,
    turns: 2,
    status: 'graded',
    reward: 1,
    passed: true,
    finish: 'turn-limit',
    failure: null,
    reason: '',
  };
  await store.putOnce<OutcomeRecord>(keys.outcome(rollout), outcome as OutcomeRecord);
  await store.append([
    { run, rollout, attempt: 1, event: 'dispatched', at: hoursAgo(100) },
    { run, rollout, attempt: 1, event: 'trained', at: hoursAgo(99) },
  ]);
  if (end)
    await store.putOnce<RunEnd>(keys.runEnd(run), {
      status: end.status,
      finishedAt: hoursAgo(end.hoursAgo),
      message: '',
    });
  await store.close();
}

test('every verb that reads records answers as before', async () => {
  await leaveRun('done', { status: 'completed', hoursAgo: 1 });
  const asked = [['runs'], ['show', 'done'], ['rollouts', 'done'], ['trajectory', rolloutOf('done')]];
  const answers = async () => {
    const found: string[] = [];
    for (const args of asked) found.push((await call(...args)).out);
    return found;
  };
  const before = await answers();
  expect(await call('prune', 'done')).toMatchObject({
    exitCode: 0,
    document: { dryRun: false, pruned: [{ name: 'done', results: 2 }], shrunk: true },
  });
  expect(await answers()).toEqual(before);
  expect(before.at(-1)).toContain('so');
});

test('a run that has not ended is refused by name, and skipped by age', async () => {
  await leaveRun('old', { status: 'failed', hoursAgo: 48 });
  await leaveRun('young', { status: 'completed', hoursAgo: 1 });
  await leaveRun('live');
  expect(await call('prune', 'old', 'live')).toMatchObject({
    exitCode: 2,
    document: { error: { field: 'RUN', value: 'live' } },
  });
  expect((await call('prune', '--older-than', '1d', '--dry-run')).document.pruned).toMatchObject([
    { name: 'old', results: 2 },
  ]);
  expect((await call('prune', '--older-than', '1d')).document).toMatchObject({
    pruned: [{ name: 'old', results: 2 }],
    shrunk: false,
  });
  expect((await call('prune', '--older-than', '0h')).document.pruned).toMatchObject([
    { name: 'old', results: 0 },
    { name: 'young', results: 2 },
  ]);
});

test.each([
  [[], 'RUN'],
  [['none'], 'RUN'],
  [['eval/none'], 'RUN'],
  [['--older-than', '7'], '--older-than'],
  [['--older-than', '1w'], '--older-than'],
])('%j is bad input', async (args, field) => {
  await leaveRun('done', { status: 'completed', hoursAgo: 1 });
  expect(await call('prune', ...args)).toMatchObject({ exitCode: 2, document: { error: { field } } });
});
