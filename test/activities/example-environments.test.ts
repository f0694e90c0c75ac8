/**
 * Hunts a grading in the agent's own sandbox that starts again when its worker is killed, and a task with two sandboxes
 * whose policy cannot do what its task asks: the examples in examples/environments, in real sandboxes, each activity in
 * a process of its own. Not asserted: what the workflow does between them; see test/workflows/rollout.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { recordBundle } from '../../activities/orchestrator/open-modules.ts';
import { bundleModules } from '../../modules/bundle.ts';
import type { Message } from '../../protocol/message.ts';
import type { ActRecord, GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { Card, Verdict } from '../../protocol/stages.ts';
import type { TaskCatalog } from '../../protocol/task-key.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { eventually, openBubblewrapBench } from '../sandboxes/harness.ts';
import type { ActivityPlace } from './fixtures/activity-process.ts';

const bench = await openBubblewrapBench();
const root = join(import.meta.dirname, '../..');
let storeDir: string;
let store: Store;

beforeEach(() => {
  storeDir = mkdtempSync(join(tmpdir(), 'longhaul-examples-'));
  store = openSqliteStore(storeDir);
});
afterEach(async () => {
  await bench.provider.sweep(() => false);
  await store.close();
  rmSync(storeDir, { recursive: true });
});

async function exampleOf(name: string, index: number, options: Readonly<Record<string, unknown>> = {}) {
  const { stateDir, supervisorPath } = bench;
  const module = join(root, 'examples/environments', `${name}.ts`);
  const place: ActivityPlace = { storeDir, stateDir, supervisorPath };
  const task = `${name}-train-${index}`;
  const modules = await recordBundle(await bundleModules([module]), store);
  const sources: TaskCatalog = { sources: { [name]: { environment: name, options } }, modules };
  const catalog = await store.putObject(Buffer.from(JSON.stringify(sources)));
  const attempt = { run: 'r', rollout: `train/r/step-1/${task}/0`, attempt: 1, task, catalog };

  const start = (activity: string, input: object) => {
    const args = [join(import.meta.dirname, 'fixtures/activity-process.ts'), JSON.stringify(place), activity];
    const worker = spawn(process.execPath, [...args, JSON.stringify({ ...attempt, ...input })], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    worker.stdout.on('data', (text: Buffer) => (said += text.toString()));
    const ended = new Promise<string | null>((resolve) => worker.once('exit', (_, signal) => resolve(signal)));
    return { worker, ended, result: () => ended.then(() => JSON.parse(said) as unknown) };
  };
  const run = async <T>(activity: string, input: object): Promise<T> => (await start(activity, input).result()) as T;

  /** What the policy said in a turn, as if it had been sampled. */
  const said = async (turn: number, name_: string, given: Record<string, unknown>): Promise<void> => {
    await store.putOnce<GenerateRecord>(keys.generate(attempt, turn), {
      version: 0,
      appended: [turn],
      reset: false,
      sampled: [7],
      logprobs: [-1],
      end: 'stop',
      parsed: { kind: 'calls', content: '', calls: [{ name: name_, arguments: given }] },
      command: name_ === 'finish' ? { do: 'finish' } : { do: 'act' },
    });
  };
  const toldIn = async (turn: number): Promise<readonly Message[]> =>
    (await store.get<ActRecord>(keys.act(attempt, turn)))?.messages ?? [];
  return { attempt, start, run, said, toldIn };
}

it('keeps-running: a grading outlives its worker, which is killed; the next one attaches to it', async () => {
  const { attempt, start, run, said } = await exampleOf('keeps-running', 3, { seconds: 8 });
  const { sandbox, gradedIn, limits } = await run<Card>('prepare', {});
  expect([gradedIn, limits]).toEqual(['agents', { gradeSeconds: 128 }]);
  const at = { ...sandbox, toolTimeoutSeconds: 60 };
  await said(1, 'bash', { command: '(while :; do echo on >> /tmp/beat-3; sleep 0.2; done) >/dev/null 2>&1 &' });
  await run('agentRun', { ...at, turn: 1 });

  const grading = { ...sandbox, finish: 'finish-tool', turns: 2 };
  const live = await bench.provider.connect(`${attempt.rollout}#1`);
  const watches = async () => {
    const found = await live.read('/tmp/watches', 100);
    return found.kind === 'file' ? Buffer.from(found.content).toString() : undefined;
  };
  const first = start('gradeInPlace', grading);
  await eventually('the grader watches', watches);
  first.worker.kill('SIGKILL');
  expect(await first.ended).toBe('SIGKILL');
  expect(await store.list('verdict:')).toEqual([]);

  const verdict = await run<Verdict>('gradeInPlace', grading);
  expect(verdict).toMatchObject({ code: 'graded', reward: 1, passed: true });
  expect(await watches()).toBe('watched\n');
  expect(await store.begun(`reward:${attempt.rollout}#1`)).toBe(2);
  live.close();
  await run('releaseSandbox', { ...sandbox });
  expect([await bench.provider.list(), await store.leases('sandbox')]).toEqual([[], []]);
});

it('two-sandboxes: tools act on main, which reaches the server on db; the answer alone is graded', async () => {
  const { run, said, toldIn } = await exampleOf('two-sandboxes', 0);
  const { sandbox, gradedIn } = await run<Card>('prepare', {});
  expect([sandbox?.others, gradedIn]).toEqual([['db'], 'none']);
  const at = { ...sandbox, toolTimeoutSeconds: 60 };
  await said(1, 'bash', {
    command: 'for name in apple drum glove; do exec 3<>/dev/tcp/db/7000; echo $name >&3; cat <&3; done',
  });
  await run('agentRun', { ...at, turn: 1 });
  const prices = (await toldIn(1)).map(({ content }) => content).join('');
  const total = prices.match(/\d+/gu)?.reduce((sum, price) => sum + Number(price), 0);
  await said(2, 'finish', { answer: String(total) });
  await run('collect', { ...sandbox });
  expect(await bench.provider.list()).toEqual([]);
  expect(await run('computeReward', { finish: 'finish-tool', turns: 2 })).toMatchObject({ reward: 1, passed: true });
});
