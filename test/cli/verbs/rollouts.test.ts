/** Hunts a filter of `rollouts` that shows what it should not, and one that is ignored. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommandLine } from '../../../cli/run.ts';
import type { OutcomeRecord, RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { openStore, sqliteUrl } from '../../../store/open-store.ts';
import { buildOfPackage } from '../../../workers/report-worker.ts';
import { someTasks } from '../../support/some-tasks.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-rollouts-'));
const env = { ...process.env, LONGHAUL_HOME: join(dir, 'home'), LONGHAUL_STORE: sqliteUrl(join(dir, 'elsewhere')) };
const seen = new Date().toISOString();

interface Document {
  readonly rollouts: ReadonlyArray<{ readonly rollout: string }>;
  readonly events: ReadonlyArray<{ readonly rollout: string }>;
  readonly error: unknown;
  readonly workers: unknown;
}

async function call(...args: string[]) {
  let out = '';
  const exitCode = await runCommandLine([...args, '--json'], {
    out: (text) => void (out += text),
    err: () => undefined,
    env,
    cwd: dir,
    signal: new AbortController().signal,
  });
  return { exitCode, document: JSON.parse(out) as Document };
}

const rolloutOf = (step: number, task: string) => `train/r/step-${step}/${task}/0`;

/** Each outcome has its day of January. */
const outcomes = [
  { step: 1, task: 'swe-mini-train-0', reward: 1 },
  { step: 1, task: 'swe-mini-train-1', reward: 0.5 },
  { step: 2, task: 'swe-mini-train-0', reward: 0 },
  { step: 2, task: 'swe-mini-train-2', failure: 'worker-lost' },
] as const;

beforeAll(async () => {
  const store = await openStore(env.LONGHAUL_STORE);
  await store.putOnce(keys.run('r'), {
    run: 'r',
    runDir: dir,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: { base: '/p', parameters: 1, vocabulary: 1 },
    task: { name: 'swe-mini', train: 3, heldOut: 0 },
    tasks: someTasks,
  } satisfies RunRecord);
  for (const [i, { step, task, ...end }] of outcomes.entries()) {
    const rollout = rolloutOf(step, task);
    await store.append([{ run: 'r', rollout, attempt: 1, event: 'dispatched', at: `2026-01-0${i + 1}T00:00:00.000Z` }]);
    const graded = 'reward' in end;
    await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
      rollout,
      task,
      attempt: 1,
      turns: 1,
      status: graded ? 'graded' : 'failed',
      reward: graded ? end.reward : null,
      passed: graded && end.reward === 1,
      finish: null,
      failure: graded ? null : (end.failure as OutcomeRecord['failure']),
      reason: '',
    });
  }
  const rollout = rolloutOf(2, 'swe-mini-train-3');
  await store.append([{ run: 'r', rollout, attempt: 1, event: 'dispatched', at: '2026-01-05T00:00:00.000Z' }]);
  await store.reportWorker({
    id: 'there/7',
    role: 'init',
    host: 'there',
    pid: 7,
    build: buildOfPackage(),
    queues: ['init'],
    since: seen,
    seen,
  });
  await store.close();
});
afterAll(() => rmSync(dir, { recursive: true }));

describe('longhaul rollouts', () => {
  it.each([
    [[], [0, 1, 2, 3], 5],
    [['--task', 'swe-mini-train-0'], [0, 2], 2],
    [['--task', 'swe-mini-train-0', '--step', '2'], [2], 1],
    [['--source', 'swe-mini'], [0, 1, 2, 3], 5],
    [['--source', 'other'], [], 0],
    [['--status', 'failed'], [3], 1],
    [['--status', 'running'], [], 1],
    [['--failure', 'worker-lost'], [3], 1],
    [['--min-reward', '0.5'], [0, 1], 2],
    [['--min-reward', '0.1', '--max-reward', '0.5'], [1], 1],
    [['--since', '2026-01-02', '--until', '2026-01-04T00:00:00Z'], [1, 2], 2],
  ] as const)('%j gives these and their events', async (options, expected, events) => {
    const { exitCode, document } = await call('rollouts', 'r', ...options);
    expect(exitCode).toBe(0);
    expect(document.rollouts.map(({ rollout }) => rollout).toSorted()).toEqual(
      expected.map((i) => rolloutOf(outcomes[i]!.step, outcomes[i]!.task)).toSorted(),
    );
    expect(document.events).toHaveLength(events);
  });

  it.each([
    ['--status', 'lost', 'graded'],
    ['--failure', 'weird', 'endpoint-unavailable'],
    ['--min-reward', 'much', 'number'],
    ['--since', 'yesterday', '2026-01-31'],
  ])('refuses %s %s', async (option, value, remedy) => {
    expect(await call('rollouts', 'r', option, value)).toMatchObject({
      exitCode: 2,
      document: { error: { name: 'UserInputError', field: option, remedy: expect.stringContaining(remedy) as string } },
    });
  });
});

it.each([
  [['--min-reward', '2', '--max-reward', '1'], '--min-reward'],
  [['--since', '2026-02-01', '--until', '2026-01-01'], '--since'],
])('longhaul rollouts refuses %j, which selects nothing', async (options, field) => {
  expect(await call('rollouts', 'r', ...options)).toMatchObject({ exitCode: 2, document: { error: { field } } });
});

it('ps lists the workers of the store, also those of other hosts', async () => {
  const { document } = await call('ps');
  expect(document.workers).toMatchObject([{ id: 'there/7', role: 'init', queues: ['init'], state: 'live', seen }]);
});
