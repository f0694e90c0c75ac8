/**
 * Hunts work that no list names, and short ids that resolve to the wrong work: the wrong run must not be cancelled.
 * The server is real.
 */

import { someTasks } from '../../support/some-tasks.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { evalKeys, type EvalRecord } from '../../../reports/evaluation/eval-records.ts';
import type { OutcomeRecord, RunRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { didYouMean, fullName } from '../../../cli/connect/names.ts';
import { Longhaul } from '../../../client/longhaul.ts';
import { runCommandLine } from '../../../cli/run.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul all work-'));
const home = join(dir, 'home');
const TASK = 'swe-mini-held-out-0';
const ended = `rollout/${TASK}/aaaa1111`;
const live = `rollout/${TASK}/bbbb2222`;
let server: PrivateServer;
let longhaul: Longhaul;

beforeAll(async () => {
  server = await startPrivateServer(join(dir, 'temporal'));
  vi.stubEnv('TEMPORAL_ADDRESS', server.address);
  longhaul = await Longhaul.connect();
  const store = openSqliteStore(join(home, 'store'));
  const policy = { base: '/p', parameters: 1, vocabulary: 1 };
  for (const run of ['first-run', 'second-run']) {
    await store.putOnce<RunRecord>(keys.run(run), {
      run,
      runDir: dir,
      seed: 1,
      startedAt: '2026-01-01T00:00:00.000Z',
      policy,
      task: { name: 'swe-mini', train: 1, heldOut: 1 },
      tasks: someTasks,
    });
  }
  const config = { eval: 'nightly', tasks: { ids: [] }, sampling: [], bootstrap: { confidence: 0.95 } };
  await store.putOnce(evalKeys.record('nightly'), {
    eval: 'nightly',
    evalDir: dir,
    startedAt: '2026-01-02T00:00:00.000Z',
    config,
    policies: [],
  } as unknown as EvalRecord);
  await store.append([{ run: ended, rollout: ended, attempt: 1, event: 'dispatched', at: '2026-01-03T00:00:00.000Z' }]);
  const outcome = {
    rollout: ended,
    task: TASK,
    attempt: 1,
    turns: 0,
    status: 'graded',
    reward: 1,
    passed: true,
    finish: 'finish-tool',
    failure: null,
    reason: 'it works',
  };
  await store.putOnce<OutcomeRecord>(keys.outcome(ended), outcome as unknown as OutcomeRecord);
  await store.close();
  // No worker runs them.
  const begin = (type: string, workflowId: string) =>
    longhaul.client.workflow.start(type, { taskQueue: 'none', workflowId, args: [] });
  await begin('rollout', live);
  await begin('train', 'train/first-run');
  await begin('train', 'train/second');
});
afterAll(async () => {
  await longhaul?.close();
  await server?.stop();
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true, force: true });
});

async function call(...args: string[]) {
  let out = '';
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: () => undefined,
    env: { ...process.env, LONGHAUL_HOME: home },
    cwd: dir,
    signal: new AbortController().signal,
  };
  const exitCode = await runCommandLine([...args, '--json'], around);
  return { exitCode, document: JSON.parse(out) as Record<string, unknown> & { error?: Record<string, unknown> } };
}
const isCancelled = async (workflowId: string) =>
  (await longhaul.client.workflow.getHandle(workflowId).fetchHistory()).events?.some(
    (event) => event.workflowExecutionCancelRequestedEventAttributes,
  );

it('runs --all lists runs, evals and single rollouts, live ones too, with the command that shows each', async () => {
  // The server lists a started workflow with a delay.
  await vi.waitFor(
    async () =>
      expect((await call('runs', '--all')).document).toMatchObject([
        { kind: 'run', id: 'first-run', status: 'running', look: 'npx longhaul show first-run' },
        { kind: 'run', id: 'second-run' },
        {
          kind: 'eval',
          id: 'eval/nightly',
          startedAt: '2026-01-02T00:00:00.000Z',
          look: 'npx longhaul show eval/nightly',
        },
        {
          kind: 'rollout',
          id: ended,
          status: 'graded',
          startedAt: '2026-01-03T00:00:00.000Z',
          look: `npx longhaul trajectory ${ended}`,
        },
        { kind: 'rollout', id: live, status: 'running', look: `npx longhaul rollout --attach ${live}` },
      ]),
    { timeout: 30_000, interval: 300 },
  );
  expect((await call('runs')).document).toHaveLength(2);
});

it('show and trajectory accept a unique prefix, of a rollout also that of its last part', async () => {
  expect((await call('show', 'first')).document).toMatchObject({ runId: 'first-run' });
  expect((await call('show', 'night')).document).toMatchObject({ eval: 'nightly' });
  for (const args of [
    ['trajectory', 'aaaa'],
    ['show', 'aaaa'],
    ['trajectory', ended],
  ])
    expect((await call(...args)).document, args.join(' ')).toMatchObject({ rollout: ended });
});

it('an ambiguous prefix is refused with the candidates', async () => {
  expect(() => fullName('run-', ['run-1', 'run-2', 'other'], 'RUN')).toThrow('give one of run-1, run-2');
  expect(fullName('run-1', ['run-1', 'run-10'], 'RUN')).toBe('run-1');
  expect(await call('show', '')).toMatchObject({
    exitCode: 2,
    document: { error: { field: 'RUN', remedy: expect.stringContaining('first-run, second-run') as string } },
  });
});

it('cancel prefers a running workflow with exactly that name to one with that prefix', async () => {
  expect((await call('cancel', 'second')).document).toMatchObject({ run: 'second' });
  expect([await isCancelled('train/second'), await isCancelled('train/first-run')]).toEqual([true, false]);
  expect((await call('cancel', 'bbbb')).document).toMatchObject({ run: live });
  expect(await isCancelled(live)).toBe(true);
  expect((await call('cancel', 'first')).document).toMatchObject({ run: 'first-run' });
});

it('lists nothing that does not exist', async () => {
  expect(await call('cancel', 'frist-run')).toMatchObject({
    exitCode: 2,
    document: { error: { remedy: expect.stringContaining('did you mean first-run? ') as string } },
  });
  expect(await call('show', 'secnd-run')).toMatchObject({
    exitCode: 2,
    document: { error: { remedy: expect.stringContaining('did you mean second-run? ') as string } },
  });
  expect(await call('trajectory', 'zzzz')).toMatchObject({ exitCode: 2, document: { error: { field: 'ROLLOUT' } } });
  expect(await call('watch', live)).toMatchObject({
    exitCode: 2,
    document: { error: { remedy: expect.stringContaining(`rollout --attach ${live}`) as string } },
  });
  expect(didYouMean('something-else', ['first-run'])).toBe('');
});
