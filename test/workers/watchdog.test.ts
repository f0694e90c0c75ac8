/**
 * Hunts a run that stands still without a word: what is stuck is named with its queue, its time and a remedy, and what
 * merely takes its time is not. The server is real.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApplicationFailure } from '@temporalio/common';
import { type Client, Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { describe, expect, it } from 'vitest';
import { StallTeller } from '../../cli/connect/troubles.ts';
import { askLive, linesOfLive } from '../../cli/train/live-run.ts';
import { chooseWorkflows, type OpenWorkflow } from '../../workers/watchdog/choose-workflows.ts';
import { findStalls, openRuns, pendingOf } from '../../workers/watchdog/find-stalls.ts';
import { type Pending, stallLines, stallOf } from '../../workers/watchdog/stall.ts';
import { startWatchdog } from '../../workers/watchdog/watchdog.ts';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { FAILURES } from '../../protocol/failure-policy.ts';
import { inCode } from '../../workflows/details.ts';
import { useWorkflowWorld } from '../support/use-world.ts';

const MINUTE = 60_000;
const T0 = Date.UTC(2026, 0, 2, 3, 4, 5);
const pending = (over: Partial<Pending> = {}): Pending => ({
  workflow: 'train/r/step-1/t-train-0/0',
  activity: 'generate',
  queue: 'gpu',
  state: 'scheduled',
  attempt: 1,
  since: T0,
  ...over,
});

describe('what is stuck', () => {
  it('is what no worker has polled for in a minute', () => {
    expect(stallOf(pending(), 0, T0 + MINUTE - 1)).toBeUndefined();
    expect(stallOf(pending(), 0, T0 + MINUTE)).toMatchObject({
      kind: 'no-worker',
      why: 'no worker polls the queue gpu',
      remedy: 'start one: npx longhaul up --detach',
    });
    expect(stallOf(pending({ activity: 'agentRun', queue: 'agent-run@host-7' }), 0, T0 + MINUTE)?.remedy).toMatch(
      /on host-7/,
    );
  });

  it('is what waits among busy workers, or runs, for ten minutes; an update for an hour', () => {
    expect(stallOf(pending(), 3, T0 + 10 * MINUTE - 1)).toBeUndefined();
    expect(stallOf(pending(), 3, T0 + 10 * MINUTE)).toMatchObject({
      kind: 'no-slot',
      remedy: expect.stringContaining('--role gpu'),
    });
    expect(stallOf(pending({ queue: 'endpoint' }), 3, T0 + 10 * MINUTE)).toMatchObject({
      kind: 'no-slot',
      remedy: expect.stringContaining('--role gpu'),
    });
    expect(stallOf(pending({ state: 'started' }), 0, T0 + 10 * MINUTE)).toMatchObject({ kind: 'slow' });
    expect(stallOf(pending({ state: 'started', activity: 'update' }), 1, T0 + 59 * MINUTE)).toBeUndefined();
  });

  it('is what fails for the third time, with the remedy of its class', () => {
    const failure = {
      error: 'EndpointUnavailable',
      message: 'connection refused',
      failure: 'endpoint-unavailable' as const,
    };
    expect(stallOf(pending({ attempt: 2, failure }), 1, T0)).toBeUndefined();
    expect(stallOf(pending({ attempt: 3, failure }), 1, T0)).toMatchObject({
      kind: 'failing',
      why: 'try 3; the last one: EndpointUnavailable: connection refused',
      remedy: FAILURES['endpoint-unavailable'].remedy,
    });
  });

  it('is what was silent for the third time, which is no bug to be reported, with the remedy of what Temporal says', () => {
    const tried = (lastFailure: object) => {
      const raw = {
        pendingActivities: [
          {
            state: 1,
            attempt: 3,
            activityType: { name: 'computeReward' },
            scheduledTime: { seconds: T0 / 1000 },
            lastFailure,
          },
        ],
      };
      return stallOf(pendingOf({ workflowId: 'w', raw: raw as never })[0]!, 1, T0);
    };
    const timeout = (message: string, timeoutType: number) => tried({ message, timeoutFailureInfo: { timeoutType } });
    expect(timeout('activity Heartbeat timeout', 4)).toMatchObject({
      kind: 'failing',
      why: 'try 3; the last one: timeout: activity Heartbeat timeout',
      remedy: FAILURES.timeout.remedy,
    });
    expect(timeout('activity StartToClose timeout', 1)).toMatchObject({ remedy: FAILURES.timeout.remedy });
    expect(tried({ message: 'No space is left', applicationFailureInfo: { type: 'StoreFull' } })).toMatchObject({
      why: 'try 3; the last one: StoreFull: No space is left',
      remedy: FAILURES['store-unavailable'].remedy,
    });
    expect(tried({ message: 'x is undefined', applicationFailureInfo: { type: 'TypeError' } })).toMatchObject({
      why: 'try 3; the last one: TypeError: x is undefined',
      remedy: FAILURES.internal.remedy,
    });
  });

  it('is what fails since now at the latest: between two tries it is due in the future', () => {
    const failure = { error: 'EngineLost', message: 'gone' };
    expect(stallOf(pending({ attempt: 3, failure, since: T0 + 5_000 }), 1, T0)).toMatchObject({ since: T0 });
  });

  it('is what somebody has paused, with what lets it go on, and not for want of a worker', () => {
    const one = pending({ state: 'paused' });
    expect(stallOf(one, 0, T0 + MINUTE - 1)).toBeUndefined();
    expect(stallOf(one, 0, T0 + MINUTE)).toMatchObject({
      kind: 'paused',
      remedy: `let it go on: temporal activity unpause --workflow-id ${one.workflow} --activity-type generate`,
    });
  });

  it('is not what has begun and is asked to end, as if no worker had it', () => {
    const at = (ms: number) => ({ seconds: ms / 1000 });
    const of = (state: number) =>
      pendingOf({
        workflowId: 'w',
        raw: {
          pendingActivities: [
            {
              state,
              activityType: { name: 'computeReward' },
              scheduledTime: at(T0),
              lastStartedTime: at(T0 + MINUTE),
              pauseInfo: { pauseTime: at(T0 + 2 * MINUTE) },
            },
          ],
        } as never,
      })[0];
    expect([1, 2, 3, 4, 5].map((state) => [of(state)?.state, (of(state)!.since - T0) / MINUTE])).toEqual([
      ['scheduled', 0],
      ['started', 1],
      ['started', 1],
      ['paused', 2],
      ['started', 1],
    ]);
  });

  it('is a workflow whose own task fails again and again, with what its code said', () => {
    const task = { activity: 'workflow task', queue: 'orchestrator', attempt: 57 };
    const nondeterminism = pending({
      ...task,
      failure: { error: 'NonDeterminism', message: '[TMPRL1100] Activity machine does not handle this event' },
    });
    expect(stallOf(nondeterminism, 1, T0)).toMatchObject({
      kind: 'failing',
      why: expect.stringMatching(/^try 57; the last one: NonDeterminism: \[TMPRL1100\]/),
      remedy: expect.stringContaining('bring the build back'),
    });
    expect(stallOf(pending({ ...task, failure: { error: 'TypeError', message: 'x' } }), 1, T0)?.remedy).toContain(
      'log of the orchestrator',
    );
  });

  it('is told in one line by queue and kind, the oldest first', () => {
    const many = [3, 1, 2].map((n) => stallOf(pending({ workflow: `w${n}`, since: T0 - n * MINUTE }), 0, T0 + MINUTE)!);
    expect([...stallLines(many).values()]).toEqual([
      'stuck: generate of w3 and 2 more, on gpu since 2026-01-02T03:01:05.000Z: no worker polls the queue gpu; start one: npx longhaul up --detach',
    ]);
  });
});

describe('one look at many open workflows', () => {
  const minutes = (n: number) => T0 + n * MINUTE;
  const rollouts = Array.from({ length: 3000 }, (_, i) => ({
    id: `rollout-${i}`,
    type: 'rollout',
    startedAt: minutes(i),
  }));
  const open: OpenWorkflow[] = [
    ...rollouts,
    { id: 'run', type: 'train', startedAt: minutes(9000) },
    ...[1, 2].map((n) => ({ id: `batch-${n}`, type: 'batch', startedAt: minutes(8000 + n) })),
  ];

  it('asks about what all others wait for, about the rollouts that have run for longest, and about some new ones', () => {
    const asked = chooseWorkflows(open);
    expect(asked.slice(0, 4)).toEqual(['run', 'batch-1', 'batch-2', 'rollout-0']);
    expect(asked.filter((id) => id.startsWith('rollout'))).toEqual([
      ...Array.from({ length: 150 }, (_, i) => `rollout-${i}`),
      ...Array.from({ length: 50 }, (_, i) => `rollout-${2950 + i}`),
    ]);
  });

  it('asks about each once, however few there are', () => {
    expect(chooseWorkflows([...rollouts.slice(0, 160), ...rollouts.slice(0, 10)]).toSorted()).toEqual(
      rollouts
        .slice(0, 160)
        .map(({ id }) => id)
        .toSorted(),
    );
  });
});

const world = useWorkflowWorld();
const details = (id: string) => world.details(id);

it('a rollout that waits for a host without a worker is found by its run, and one that goes on is not', async () => {
  const { client } = world.now;
  const lateBy = (minutes: number) => findStalls(client, 'stalled', Date.now() + minutes * MINUTE);
  world.host = 'nowhere';
  const policy = { dir: '/p', version: 1 };
  const batch = await world.start('batch', 'train/stalled/step-1', {
    run: 'stalled',
    name: 'step-1',
    step: 1,
    tasks: ['t-train-0'],
    samples: 2,
    policy,
    agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    seed: 1,
    dispatcher: { type: 'bounded', maxParallelAgents: 2 },
  });
  await expect
    .poll(async () => (await lateBy(2)).map(({ activity, queue, kind }) => `${activity} ${queue} ${kind}`))
    .toEqual(['agentRun agent-run@nowhere no-worker', 'agentRun agent-run@nowhere no-worker']);
  expect(await lateBy(0)).toEqual([]);
  expect([...stallLines(await lateBy(2)).values()][0]).toMatch(
    /^stuck: agentRun of train\/stalled\/step-1\/t-train-0\/\d and 1 more, on agent-run@nowhere since /,
  );
  expect(await details('train/stalled/step-1/t-train-0/0')).toMatch(
    /act on nowhere since \d{4}-.* \(attempt 1, turn 1\)/,
  );
  await batch.terminate();
  for (const sample of [0, 1])
    await client.workflow
      .getHandle(`train/stalled/step-1/t-train-0/${sample}`)
      .terminate()
      .catch(() => undefined);
});

it('an eval is looked at like a run, by its own name', async () => {
  const { client } = world.now;
  world.host = 'nowhere';
  const sweep = await world.start('evalSweep', 'eval/stuck', {
    agent: { maxTurns: 5, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
    dispatcher: { type: 'bounded', maxParallelAgents: 2 },
  });
  await expect.poll(() => openRuns(client)).toContain('eval/stuck');
  const late = () => findStalls(client, 'eval/stuck', Date.now() + 2 * MINUTE);
  await expect
    .poll(async () => (await late()).map(({ activity, kind }) => `${activity} ${kind}`))
    .toContain('agentRun no-worker');
  await sweep.terminate();
  for await (const { workflowId } of client.workflow.list({
    query: 'LonghaulRun = "eval/stuck" AND ExecutionStatus = "Running"',
  })) {
    await client.workflow
      .getHandle(workflowId)
      .terminate()
      .catch(() => undefined);
  }
});

it('says each thing that is stuck once in the log, of every open run, and nothing once it goes on', async () => {
  let down = true;
  world.script = {
    before: (activity) => {
      if (activity === 'generate' && down)
        throw ApplicationFailure.retryable('connection refused', 'EndpointUnavailable');
    },
  };
  const handle = await world.start('train', 'train/failing', {
    run: 'failing',
    policy: { base: '/p' },
    task: { name: 't', train: 2 },
    steps: 1,
    batch: { tasks: 1, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
  });
  const said: string[] = [];
  const connection = world.now.client.connection as unknown as NativeConnection;
  const watchdog = startWatchdog({ connection, namespace: 'default' }, (line) => said.push(line), 100);
  await expect.poll(() => said.length).toBe(1);
  await expect.poll(() => details('train/failing')).toBe(inCode(said[0] ?? ''));
  expect(said[0]).toMatch(
    /^stuck: generate of train\/failing\/eval-0-sampled\/t-held-out-0\/0, on gpu since .*: try \d; the last one: EndpointUnavailable: connection refused; see whether/,
  );
  down = false;
  expect(await handle.result()).toMatchObject({ steps: 1 });
  await watchdog.stop();
  expect(said.length).toBe(1);
  expect(await details('train/failing')).not.toContain('stuck');
  const { events } = await handle.fetchHistory();
  expect(
    events!.filter(({ workflowExecutionSignaledEventAttributes: signal }) => signal?.signalName === 'stalled').length,
  ).toBeLessThanOrEqual(2);
});

it('what another watchdog told a run is taken out again, where it is so no more', async () => {
  const handle = await world.start('train', 'train/told', {
    run: 'told',
    policy: { base: '/p' },
    task: { name: 't', train: 2 },
    steps: 1,
    batch: { tasks: 1, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
  });
  await handle.signal('pause', 'step');
  await handle.signal('stalled', ['stuck: something of long ago']);
  expect(await details('train/told')).toBe('`stuck: something of long ago`');
  const watchdog = startWatchdog(
    { connection: world.now.client.connection as unknown as NativeConnection, namespace: 'default' },
    () => undefined,
    100,
  );
  await expect.poll(() => details('train/told')).toBe('');
  await watchdog.stop();
  await handle.signal('resume');
  await handle.result();
});

it('a run whose own code fails again and again is named, with what it said and since when, whatever the try, also by show', async () => {
  const { client } = world.now;
  // What it is to go on with is not there: its code throws in each of its tasks, before it has a search attribute.
  const wedged = await client.workflow.start('train', {
    taskQueue: 'orchestrator',
    workflowId: 'train/wedged',
    args: [{}, {}],
    workflowTaskTimeout: '1s',
  });
  const said: string[] = [];
  // It answers no query, which a look waits for.
  const watchdog = startWatchdog(
    { connection: client.connection as unknown as NativeConnection, namespace: 'default' },
    (line) => said.push(line),
    200,
    3000,
  );
  const found = () => findStalls(client, 'wedged');
  await expect.poll(async () => (await found()).map(({ kind }) => kind)).toEqual(['failing']);
  const stall = (await found())[0]!;
  expect(stall).toMatchObject({
    workflow: 'train/wedged',
    activity: 'workflow task',
    queue: 'orchestrator',
    why: expect.stringMatching(/^try \d+; the last one: WorkflowTaskFailed: Cannot read properties/),
  });
  const { events } = await wedged.fetchHistory();
  const failed = events!.find(({ workflowTaskFailedEventAttributes }) => workflowTaskFailedEventAttributes)!;
  expect(Math.floor(stall.since / 1000)).toBe(Number(failed.eventTime!.seconds));
  await expect.poll(async () => (await found())[0]?.attempt).toBeGreaterThan(stall.attempt);
  expect((await found())[0]?.since).toBe(stall.since);
  await expect
    .poll(
      () =>
        said.filter((line) => line.startsWith('stuck: workflow task of train/wedged, on orchestrator since ')).length,
    )
    .toBe(1);
  await watchdog.stop();
  // Between two of its tries nothing fails.
  await expect
    .poll(async () => linesOfLive(await askLive(client, 'wedged')))
    .toEqual([expect.stringMatching(/^stuck: workflow task of train\/wedged, on orchestrator since /)]);
  await wedged.terminate();
});

it('who follows a run is told once of what is stuck, though the server was away in between', async () => {
  const { client } = world.now;
  world.script = {
    before: (activity) => {
      if (activity === 'generate')
        throw ApplicationFailure.create({ message: 'not yet', type: 'EngineLost', nextRetryDelay: '100ms' });
    },
  };
  const run = 'followed';
  const handle = await world.start('train', `train/${run}`, {
    run,
    policy: { base: '/p' },
    task: { name: 't', train: 2 },
    steps: 1,
    batch: { tasks: 1, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
  });
  await expect.poll(() => findStalls(client, run)).not.toEqual([]);
  let isAway = false;
  const away = (): never => {
    throw new Error('away');
  };
  const flaky = Object.create(client, { workflow: { get: () => (isAway ? away() : client.workflow) } }) as Client;
  const said: string[] = [];
  const teller = new StallTeller(flaky, run, (line) => said.push(line));
  const look = async () => {
    for (let i = 0; i < 30; i += 1) await teller.poll();
  };
  for (const now of [false, true, false]) {
    isAway = now;
    await look();
  }
  expect(said).toHaveLength(1);
  await handle.cancel();
  await expect(handle.result()).rejects.toThrow('cancelled');
});

it('an activity that was paused by hand is named as that', async () => {
  const { client } = world.now;
  world.script = {
    before: (activity) => {
      if (activity === 'generate')
        throw ApplicationFailure.create({ message: 'not yet', type: 'EngineLost', nextRetryDelay: '200ms' });
    },
  };
  const run = 'by-hand';
  const handle = await world.start('train', `train/${run}`, {
    run,
    policy: { base: '/p' },
    task: { name: 't', train: 2 },
    steps: 1,
    batch: { tasks: 1, samples: 2 },
    evaluation: { tasks: 1, greedy: false },
  });
  await expect.poll(() => world.count('generate')).toBeGreaterThan(0);
  await client.workflowService.pauseActivity({
    namespace: 'default',
    execution: { workflowId: `train/${run}/eval-0-sampled/t-held-out-0/0` },
    type: 'generate',
    identity: 'a test',
    reason: 'by hand',
  });
  const late = () => findStalls(client, run, Date.now() + 2 * MINUTE);
  await expect
    .poll(async () => (await late()).map(({ activity, kind }) => `${activity} ${kind}`))
    .toEqual(['generate paused']);
  await handle.cancel();
  await expect(handle.result()).rejects.toThrow('cancelled');
});

it('says that it could not look, once, where the server does not answer', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-watchdog-'));
  const server = await startPrivateServer(dir);
  // Without the client's own tries again, of a quarter of a minute.
  const connection = await Connection.connect({ address: server.address, interceptors: [] });
  const said: string[] = [];
  const watchdog = startWatchdog(
    { connection: connection as unknown as NativeConnection, namespace: 'default' },
    (line) => said.push(line),
    50,
  );
  await server.stop();
  await expect.poll(() => said.length).toBe(1);
  expect(said[0]).toMatch(
    /^the watchdog could not look at the list of open runs: .*; what is stuck there is not told until it can$/,
  );
  await watchdog.stop();
  await connection.close();
  rmSync(dir, { recursive: true, force: true });
  expect(said.length).toBe(1);
});
