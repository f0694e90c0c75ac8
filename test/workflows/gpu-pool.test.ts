/**
 * Hunts turns that wait for a lost worker while others are free, and updates in shards that are made otherwise than
 * planned: out of order, twice, or also as a whole. Not asserted: that a cache saves time.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApplicationFailure } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type PrivateServer, startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { QUEUES, workerQueue } from '../../protocol/queues.ts';
import type { GenerateInput, GenerateOutcome } from '../../protocol/stages.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { Script } from '../support/scripted-activities.ts';
import { startWorld, type World } from '../support/workflow-world.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-pool-'));
let server: PrivateServer;
let world: World;
let script: Script = {};
/** The turns that the worker `near` receives, and what it does with them. */
const near: number[] = [];
let nearly: (turn: number) => void = () => undefined;
const updates: UpdateInput[] = [];
let stop: () => Promise<void> = async () => undefined;

const outcome = ({ turn }: GenerateInput): GenerateOutcome => ({
  kind: turn < 3 ? 'act' : 'finish',
  calls: turn < 3 ? 1 : 0,
  contextTokens: 1,
  sampledTokens: 1,
  line: '',
  worker: 'near',
});

beforeAll(async () => {
  server = await startPrivateServer(dir, []);
  world = await startWorld(server.address, {
    turn: ({ turn, rollout }) => (turn < 3 && !rollout.startsWith('train/') ? 'act' : 'finish'),
    before: (activity, input) => script.before?.(activity, input),
    worker: (input) => script.worker?.(input),
    rounds: () => script.rounds?.() ?? [2, 2],
    update: (input) => void updates.push(input),
  });
  const connection = await NativeConnection.connect({ address: server.address });
  const note = (activity: string) => async () => {
    world.log.calls.push({ activity: `apart ${activity}`, rollout: '', attempt: 0 });
    return {
      policy: { uri: 'file:///v1', version: 1 },
      sha256: 'x',
      record: { step: 1, policyVersion: 1, rewardMean: 0, passRate: 0, groups: 1, valid: 2, masked: {}, dropped: {} },
    };
  };
  const extra = await Promise.all([
    Worker.create({
      connection,
      taskQueue: workerQueue('near'),
      activities: {
        generate: async (input: GenerateInput) => {
          near.push(input.turn);
          nearly(input.turn);
          return outcome(input);
        },
      },
    }),
    Worker.create({
      connection,
      taskQueue: QUEUES.gpuTrain,
      activities: { update: note('update'), openEngine: async () => ({ kinds: {} }) },
    }),
  ]);
  const running = Promise.all(extra.map((worker) => worker.run()));
  stop = async () => {
    for (const worker of extra) worker.shutdown();
    await running;
    await connection.close();
  };
});
afterAll(async () => {
  await stop();
  await world?.stop();
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});
beforeEach(() => {
  script = {};
  nearly = () => undefined;
  near.length = 0;
  updates.length = 0;
  world.log.calls.length = 0;
});

const start = (workflow: string, workflowId: string, ...args: unknown[]) =>
  world.client.workflow.start(workflow, { taskQueue: 'orchestrator', workflowId, args });
const rollout = (id: string) => start('rollout', id, { task: 't-train-0', policy: { uri: 'file:///p', version: 1 } });
const asked = (activity: string) => world.log.calls.filter((call) => call.activity === activity);

async function eventsOf(id: string): Promise<string[]> {
  const { events = [] } = await world.client.workflow.getHandle(id).fetchHistory();
  return (events ?? []).map(({ eventType }) => String(eventType));
}

describe('a turn', () => {
  it('goes to the worker that has the context, without a further event; with one worker nothing changes', async () => {
    await (await rollout('plain')).result();
    script = { worker: () => 'near' };
    expect(await (await rollout('sticky')).result()).toMatchObject({ status: 'graded', turns: 3 });
    expect(near).toEqual([2, 3]);
    expect(await eventsOf('sticky')).toEqual(await eventsOf('plain'));
  });

  it('falls back to any worker when that one is lost, and continues there', async () => {
    script = { worker: ({ turn }) => (turn === 1 ? 'nobody' : undefined) };
    const begun = Date.now();
    expect(await (await rollout('gone')).result()).toMatchObject({ status: 'graded', turns: 3 });
    expect(asked('generate').length).toBe(3);
    // This is the server's timer, not a measured time: it waited for the worker, once.
    expect(Date.now() - begun).toBeGreaterThan(4_500);
    expect(
      (await eventsOf('gone')).filter((type) => type.includes('ACTIVITY_TASK_TIMED_OUT') || type === '14').length,
    ).toBe(1);
  });

  it('falls back when that worker fails, but not for a failure that every worker would have', async () => {
    script = { worker: () => 'near' };
    nearly = (turn) => {
      if (turn === 2) throw new Error('the engine died');
    };
    expect(await (await rollout('dying')).result()).toMatchObject({ status: 'graded', turns: 3 });
    expect(near).toEqual([2, 3]);
    expect(asked('generate').length).toBe(2);
    nearly = () => {
      throw ApplicationFailure.create({ message: 'no such policy', type: 'UserInputError', nonRetryable: true });
    };
    expect(await (await rollout('refused')).result()).toMatchObject({ status: 'failed', failure: 'bad-input' });
    expect(asked('generate').length).toBe(3);
  });
});

describe('an update in shards', () => {
  const config = (run: string, training: object) => ({
    run,
    policy: { base: '/p' },
    task: { name: 't', train: 4 },
    steps: 1,
    batch: { tasks: 2, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
    dispatcher: { type: 'batch' },
    training,
  });
  const parts = () =>
    world.log.calls.flatMap(({ activity, rollout: at }) =>
      ['planUpdate', 'forwardBackward', 'optimStep', 'update'].includes(activity) ? [`${activity} ${at}`.trim()] : [],
    );

  it('is planned, made shard by shard and step by step, and recorded once; a shard whose worker died is made again', async () => {
    let died = 0;
    script = {
      rounds: () => [2, 1],
      before: (activity, { rollout: at }) => {
        if (activity === 'forwardBackward' && at === '0/1' && died++ === 0) throw new Error('its worker died');
      },
    };
    await (await start('train', 'train/shards', config('shards', { shards: 2 }))).result();
    const made = parts();
    expect(made.slice(1, 4).toSorted()).toEqual(['forwardBackward 0/0', 'forwardBackward 0/1', 'forwardBackward 0/1']);
    expect([made[0], ...made.slice(4)]).toEqual([
      'planUpdate',
      'optimStep 0',
      'forwardBackward 1/0',
      'optimStep 1',
      'update',
    ]);
    expect(updates.map(({ shards }) => shards)).toEqual([2]);
  });

  it('whose files were removed half-way is planned again, three times at most', async () => {
    let lost = 0;
    const taken = (times: number): Script => ({
      rounds: () => [1],
      before: (activity) => {
        if (activity === 'optimStep' && lost++ < times)
          throw ApplicationFailure.create({ message: 'it was cleared away', type: 'PlanLost', nonRetryable: true });
      },
    });
    script = taken(1);
    const handle = await start('train', 'train/taken', config('taken', { shards: 2 }));
    const once = ['planUpdate', 'forwardBackward 0/0', 'optimStep 0'];
    await expect.poll(parts).toEqual([...once, ...once, 'update']);
    await handle.result();
    world.log.calls.length = 0;
    lost = 0;
    script = taken(9);
    const again = await start('train', 'train/taken-again', config('taken-again', { shards: 2 }));
    await expect
      .poll(async () => (await again.query<TrainStatus>('status')).tripped?.work)
      .toBe('the update of step 1');
    expect(parts()).toEqual([...once, ...once, ...once]);
    await again.terminate();
  });

  it('with one shard is one activity', async () => {
    await (await start('train', 'train/whole', config('whole', { shards: 1 }))).result();
    expect(parts()).toEqual(['update']);
    expect(updates[0]).not.toHaveProperty('shards');
  });

  it('waits for training workers if the placement is disaggregated', async () => {
    await (await start('train', 'train/apart', config('apart', { placement: 'disaggregated' }))).result();
    expect(parts()).toEqual([]);
    expect(asked('apart update').length).toBe(1);
  });
});
