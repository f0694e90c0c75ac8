/**
 * Hunts work of a run that an engine of another kind makes, and work that waits without need. The server is real,
 * activities are scripted. Not asserted: what a kind depends on (`test/trainer/engine-kind.test.ts`).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { OpenedEngine, OpenEngineInput } from '../../protocol/engine.ts';
import { QUEUES } from '../../protocol/queues.ts';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { pendingOf } from '../../workers/watchdog/find-stalls.ts';
import { stallOf } from '../../workers/watchdog/stall.ts';
import { queuesOf } from '../../workers/roles/gpu.ts';
import type { ScriptedActivities } from '../support/scripted-activities.ts';
import { startWorld, type World } from '../support/workflow-world.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-kinds-'));
let server: PrivateServer;
let world: World;
let connection: NativeConnection;
let scripted: ScriptedActivities;
let asked: OpenEngineInput[] = [];
/** `QUEUE ACTIVITY` of everything that an engine of a kind took. */
let taken: string[] = [];
let kinds: OpenedEngine['kinds'] = {};

const opening = async (input: OpenEngineInput): Promise<OpenedEngine> => {
  asked.push(input);
  const own = Object.entries(kinds).filter(([part]) => (input.parts as readonly string[]).includes(part));
  return { contextTokens: 321, kinds: Object.fromEntries(own) };
};

beforeAll(async () => {
  server = await startPrivateServer(dir, []);
  world = await startWorld(server.address, {}, (all) => {
    scripted = all;
    return { gpu: { ...all.gpu, openEngine: opening } };
  });
  connection = await NativeConnection.connect({ address: server.address });
});
afterAll(async () => {
  await world?.stop();
  await connection?.close();
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});
beforeEach(() => {
  asked = [];
  taken = [];
  world.log.calls.length = 0;
});

/** A GPU worker with this kind of engine, until the returned function is called. */
async function engineOf(kind: string, does: 'both' | 'train' = 'both'): Promise<() => Promise<void>> {
  const served = { sampling: [`native-${kind}`], training: [`tensorflow-${kind}`] };
  const pool = does === 'both' ? (['both'] as const) : (['generate', 'train'] as const);
  const activities = { ...scripted.gpu, openEngine: opening };
  const queues = queuesOf({ does, pool }, kind, activities, served).filter(([queue]) => queue.includes(':'));
  const noted = ([queue, own]: (typeof queues)[number]) => {
    const notes = Object.entries(own).map(([name, activity]) => [
      name,
      (...given: never[]) => {
        taken.push(`${queue} ${name}`);
        return activity(...given);
      },
    ]);
    return Worker.create({ connection, taskQueue: queue, activities: Object.fromEntries(notes) as object });
  };
  const workers = await Promise.all(queues.map(noted));
  const running = Promise.all(workers.map((worker) => worker.run()));
  return async () => {
    for (const worker of workers) worker.shutdown();
    await running;
  };
}

const config = (run: string, over: object = {}) => ({
  run,
  policy: { base: '/p' },
  task: { name: 't', train: 10 },
  steps: 1,
  batch: { tasks: 1, samples: 2 },
  evaluation: { tasks: 1, greedy: false },
  ...over,
});
const start = (workflow: string, id: string, given: object) =>
  world.client.workflow.start(workflow, { taskQueue: QUEUES.orchestrator, workflowId: id, args: [given] });

it('what a run begins with makes its turns and updates, also if engines of another kind are idle', async () => {
  kinds = { sampling: 'native-a', training: 'tensorflow-a' };
  const stops = [await engineOf('a'), await engineOf('b')];
  await (await start('train', 'train/one', config('one', { agent: { maxContextTokens: 400 } }))).result();
  for (const stop of stops) await stop();
  expect(asked).toEqual([
    {
      run: 'one',
      parts: ['sampling', 'training'],
      policies: [expect.objectContaining({ field: 'policy.base' }) as object],
      maxContextTokens: 400,
    },
  ]);
  expect(new Set(taken)).toEqual(new Set(['gpu:native-a generate', 'gpu:tensorflow-a update']));
  // Two rollouts of the step, one of each evaluation; two turns each.
  expect(taken.filter((one) => one.endsWith('generate')).length).toBe(8);
});

it('a run without a worker of its kind waits, and says so; a terminated one keeps nobody from other work', async () => {
  kinds = { sampling: 'native-a', training: 'tensorflow-a' };
  const lone = await start('train', 'train/lone', config('lone'));
  const rollout = 'train/lone/eval-0-sampled/t-held-out-0/0';
  const pending = async () => {
    const described = await world.client.workflow.getHandle(rollout).describe();
    return pendingOf(described).find(({ activity }) => activity === 'generate');
  };
  await expect.poll(() => pending().catch(() => undefined), { timeout: 30_000 }).toBeDefined();
  const waiting = await pending();
  expect(waiting).toMatchObject({ queue: 'gpu:native-a', state: 'scheduled' });
  expect(stallOf(waiting!, 0, waiting!.since + 60_000)).toMatchObject({
    kind: 'no-worker',
    why: expect.stringContaining('an engine of the kind native-a, with which its run began') as string,
    remedy: expect.stringContaining('LONGHAUL_MIXED_ENGINES=1') as string,
  });
  kinds = { sampling: 'native-b', training: 'tensorflow-b' };
  const stopB = await engineOf('b');
  await (await start('train', 'train/other', config('other'))).result();
  expect(new Set(taken)).toEqual(new Set(['gpu:native-b generate', 'gpu:tensorflow-b update']));
  taken = [];
  // The same run goes on as soon as an engine of its kind is there.
  const stopA = await engineOf('a');
  await lone.result();
  expect(new Set(taken)).toEqual(new Set(['gpu:native-a generate', 'gpu:tensorflow-a update']));
  await stopA();
  kinds = { sampling: 'native-a', training: 'tensorflow-a' };
  const ended = await start('train', 'train/ended', config('ended'));
  await expect.poll(() => asked.some(({ run }) => run === 'ended')).toBe(true);
  await ended.terminate();
  kinds = { sampling: 'native-b', training: 'tensorflow-b' };
  await (await start('train', 'train/later', config('later'))).result();
  await stopB();
});

it('without a kind any engine takes the work, so that mixed ones go on', async () => {
  kinds = {};
  await (await start('train', 'train/mixed', config('mixed'))).result();
  expect(taken).toEqual([]);
  expect(world.log.calls.filter(({ activity }) => activity === 'update').length).toBe(1);
});

it('an eval is sampled by engines of the kind that it began with', async () => {
  kinds = { sampling: 'native-a' };
  const stop = await engineOf('a');
  await (await start('evalSweep', 'eval/e', { agent: {}, dispatcher: { type: 'batch' } })).result();
  await stop();
  expect(asked).toEqual([
    {
      run: 'eval/e',
      parts: ['sampling'],
      policies: ['a', 'b'].map((name) => ({ field: `policies.${name}`, uri: `file:///${name}` })),
    },
  ]);
  expect(new Set(taken)).toEqual(new Set(['gpu:native-a generate']));
  // Two policies, two chunks of two tasks and two samples each, two turns.
  expect(taken.length).toBe(32);
});

it('a rollout outside of a run is taken by any engine', async () => {
  kinds = { sampling: 'native-a' };
  const policy = { uri: 'file:///p', version: 0 };
  await (await start('rollout', 'alone', { task: 't-train-0', policy })).result();
  expect(taken).toEqual([]);
});
