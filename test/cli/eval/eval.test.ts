/** Hunts evals that start with inputs that cannot work, and results of one eval that are shown for another. */
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { type EvalEnd, evalKeys } from '../../../reports/evaluation/eval-records.ts';
import { openSweep } from '../../../activities/orchestrator/sweep/open-sweep.ts';
import { scoreCell } from '../../../reports/evaluation/score-cell.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { makePolicy } from '../../support/eval-world.ts';
import { type RefusingServer, startRefusingServer } from '../../support/refusing-server.ts';

let directory: string;
let server: RefusingServer;
beforeAll(async () => {
  server = await startRefusingServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'longhaul-eval-'));
  vi.stubEnv('LONGHAUL_HOME', join(directory, 'home'));
  // A call that reaches Temporal fails with an error that shows it, and starts no server.
  vi.stubEnv('TEMPORAL_ADDRESS', server.address);
  writeFileSync(join(directory, 'mine.yaml'), stringify(settings));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

const settings = { seed: 1, policies: ['policy'], tasks: { name: 'swe-mini', count: 2 } };

async function call(args: string[], signal = new AbortController().signal) {
  let out = '';
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: () => undefined,
    env: process.env,
    cwd: directory,
    signal,
  };
  const exitCode = await runCommandLine([...args, '--json'], around);
  const document = JSON.parse(out) as { error?: Record<string, unknown> };
  return { exitCode, error: document.error, document };
}
const evaluate = (args: string[] = [], signal?: AbortSignal) =>
  call(['eval', join(directory, 'mine.yaml'), ...args], signal);

/** The eval `mine` as its sweep leaves it in the store, with all rollouts graded or none. */
async function leaveEval(graded: boolean): Promise<void> {
  const store = openSqliteStore(join(directory, 'home', 'store'));
  const given = { ...settings, dir: join(directory, 'evals'), policies: [join(directory, 'policy')] };
  await openSweep({ given, eval: 'mine', execution: 'first' }, { store: store, tasks: new TaskLoader(store) });
  const outcome = (task: string) => ({
    rollout: task,
    task,
    attempt: 1,
    turns: 1,
    status: 'graded' as const,
    reward: 1,
    passed: true,
    finish: null,
    failure: null,
    reason: '',
  });
  const members = ['t0', 't1'].map((task) => ({ task, sample: 0, outcome: graded ? outcome(task) : undefined }));
  const bootstrap = { resamples: 100, confidence: 0.95 };
  const scored = scoreCell(members, {
    cell: 'policy/t1',
    policy: 'policy',
    sampling: 't1',
    samples: 1,
    passAt: [1],
    bootstrap,
    seed: 1,
    familyOf: () => 'x',
  });
  await store.putOnce(evalKeys.cell('mine', 1, 'policy/t1'), scored);
  await store.putOnce<EvalEnd>(evalKeys.end('mine', 1), {
    status: 'completed',
    finishedAt: '2026-01-01T00:00:00.000Z',
    message: '',
  });
  await store.close();
}

test('a policy without its files, or an unknown task, is refused before anything is started', async () => {
  expect(await evaluate()).toMatchObject({
    exitCode: 2,
    error: { field: 'policies.policy', remedy: expect.stringContaining('config.json') },
  });
  makePolicy(join(directory, 'policy'));
  for (const [set, field] of [
    ['tasks.name=nope', 'tasks.name'],
    ['tasks={ids: [nope-train-1]}', 'tasks.ids'],
    ['passAt=[2]', 'passAt'],
    ['policies=[]', 'policies'],
    ['k=1', 'k'],
  ] as const) {
    expect(await evaluate(['--set', set]), set).toMatchObject({ exitCode: 2, error: { field } });
  }
  expect(existsSync(join(directory, 'home'))).toBe(false);
});

test('a complete eval is shown without a server, and never as another one', async () => {
  makePolicy(join(directory, 'policy'));
  await leaveEval(true);
  expect(await evaluate()).toMatchObject({
    exitCode: 0,
    document: { eval: 'mine', status: 'completed', cells: [{ passAt: { '1': { mean: 1 } } }] },
  });
  expect(await evaluate(['--set', 'dispatcher.maxParallelAgents=3'])).toMatchObject({ exitCode: 0 });
  const remedy = expect.stringMatching(/eval mine began with .* another eval name/) as string;
  expect(await evaluate(['--set', 'seed=2'])).toMatchObject({
    exitCode: 2,
    error: { field: 'seed', value: 2, remedy },
  });
  expect(await call(['show', 'eval/mine'])).toMatchObject({ exitCode: 0, document: { eval: 'mine' } });
  expect(await call(['show', 'eval/other'])).toMatchObject({
    exitCode: 2,
    error: { field: 'RUN', remedy: 'give one of eval/mine' },
  });
  makePolicy(join(directory, 'policy'), 'other weights');
  expect(await evaluate()).toMatchObject({ exitCode: 2, error: { field: 'policies.policy' } });
});

test('an incomplete eval is started again, which needs the server', async () => {
  makePolicy(join(directory, 'policy'));
  await leaveEval(false);
  expect(await evaluate()).toMatchObject({ exitCode: 3, error: { name: 'Unreachable' } });
});

test('Ctrl-C before the start does not report that the eval continues', async () => {
  makePolicy(join(directory, 'policy'));
  const { exitCode, error } = await evaluate([], AbortSignal.abort());
  expect(exitCode).toBe(130);
  expect(error).toMatchObject({
    name: 'Interrupted',
    message: expect.stringMatching(/before eval mine was started/) as string,
  });
});
