/** Hunts a watchdog that misses what is stuck on a real server, reports it twice, or reports what no longer holds. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApplicationFailure } from '@temporalio/common';
import { type Client, Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { expect, it } from 'vitest';
import { StallReporter } from '../../../cli/connect/troubles.ts';
import { askLive, linesOfLive } from '../../../cli/train/live-run.ts';
import { findStalls, openRuns } from '../../../workers/watchdog/find-stalls.ts';
import { stallLines } from '../../../workers/watchdog/stall.ts';
import { startWatchdog } from '../../../workers/watchdog/watchdog.ts';
import { startPrivateServer } from '../../../stack/temporal-server/private-server.ts';
import { inCode } from '../../../workflows/details.ts';
import { useWorkflowWorld } from '../../support/use-world.ts';

const MINUTE = 60_000;
const world = useWorkflowWorld();
const details = (id: string) => world.details(id);

it('a rollout that waits for a host without a worker is found by its run, and one that goes on is not', async () => {
  const { client } = world.now;
  const lateBy = (minutes: number) => findStalls(client, 'stalled', Date.now() + minutes * MINUTE);
  world.host = 'nowhere';
  const policy = { uri: 'file:///p', version: 1 };
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
    /^stuck: generate of train\/failing\/eval-0-sampled\/t-held-out-0\/0, on gpu since .*: attempt \d; the last failure: EndpointUnavailable: connection refused; check whether/,
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
  // The state that it continues from is missing: its code throws in each task, before it has a search attribute.
  const wedged = await client.workflow.start('train', {
    taskQueue: 'orchestrator',
    workflowId: 'train/wedged',
    args: [{}, {}],
    workflowTaskTimeout: '1s',
  });
  const said: string[] = [];
  // It answers no query, which a check waits for.
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
    why: expect.stringMatching(/^attempt \d+; the last failure: WorkflowTaskFailed: Cannot read properties/),
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
  // Between two attempts nothing fails.
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
  const teller = new StallReporter(flaky, run, (line) => said.push(line));
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
  // Without the client's own retries, which take a quarter of a minute.
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
    /^the watchdog could not check the list of open runs: .*; it reports nothing stuck there until a check succeeds$/,
  );
  await watchdog.stop();
  await connection.close();
  rmSync(dir, { recursive: true, force: true });
  expect(said.length).toBe(1);
});
