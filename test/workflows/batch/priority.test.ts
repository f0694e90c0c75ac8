/**
 * Batches of training and of evaluation on the same workers. Hunted: a training step that waits behind the queue of an
 * evaluation. On a real Temporal server: the order in which one slot takes waiting work. Not asserted: times.
 */
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';
import { buildWorkflowBundle } from '../../../workers/workflow-bundle.ts';
import type { BatchPriority } from '../../../protocol/batch.ts';
import { type Log, scriptedActivities } from '../../support/scripted-activities.ts';
import { quietTemporal } from '../../support/quiet-temporal.ts';

quietTemporal();

const dir = mkdtempSync(join(tmpdir(), 'longhaul-priority-'));
const EACH = 12;
let server: PrivateServer;
let native: NativeConnection;
let connection: Connection;
let client: Client;
const log: Log = { calls: [], held: new Set(), live: 0, peakLive: 0 };

beforeAll(async () => {
  server = await startPrivateServer(dir);
  native = await NativeConnection.connect({ address: server.address });
  connection = await Connection.connect({ address: server.address });
  client = new Client({ connection });
});
afterAll(async () => {
  await connection?.close();
  await native?.close();
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const input = (priority: BatchPriority) => ({
  run: priority,
  name: 'b',
  step: 1,
  tasks: Array.from({ length: EACH }, (_, i) => `t-train-${i}`),
  samples: 1,
  priority,
  policy: { uri: 'file:///p', version: 1 },
  agent: { maxTurns: 1, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
  seed: 1,
  dispatcher: { type: 'batch' },
});

/** Waits until `count` activities are in the queue of `init`. */
async function queued(count: number): Promise<void> {
  for (let i = 0; i < 300; i += 1) {
    const { stats } = await client.workflowService.describeTaskQueue({
      namespace: 'default',
      taskQueue: { name: 'init' },
      taskQueueType: 2,
      reportStats: true,
    });
    if (Number(stats?.approximateBacklogCount ?? 0) >= count) return;
    await sleep(100);
  }
  throw new Error(`${count} activities never waited`);
}

it('training overtakes evaluation that has waited for longer', async () => {
  const activities = scriptedActivities({}, log);
  const orchestrator = await Worker.create({
    connection: native,
    taskQueue: 'orchestrator',
    workflowBundle: { codePath: await buildWorkflowBundle() },
    activities: { ...activities.orchestrator },
  });
  const running = orchestrator.run();
  const start = (priority: BatchPriority) =>
    client.workflow.start('batch', { taskQueue: 'orchestrator', workflowId: priority, args: [input(priority)] });
  const handles = [await start('eval')];
  await queued(EACH);
  handles.push(await start('train'));
  await queued(2 * EACH);
  const hosts = await Promise.all(
    Object.entries({
      init: activities.init,
      gpu: activities.gpu,
      reward: activities.reward,
      'agent-run@test-host': activities.agentRun,
    }).map(([taskQueue, own]) =>
      Worker.create({
        connection: native,
        taskQueue,
        activities: { ...own },
        ...(taskQueue === 'init'
          ? {
              maxConcurrentActivityTaskExecutions: 1,
              activityTaskPollerBehavior: { type: 'simple-maximum' as const, maximum: 1 },
            }
          : {}),
      }),
    ),
  );
  const all = [running, ...hosts.map((worker) => worker.run())];
  await Promise.all(handles.map((handle) => handle.result()));
  for (const worker of [orchestrator, ...hosts]) worker.shutdown();
  await Promise.all(all);
  const began = log.calls.filter(({ activity }) => activity === 'prepare').map(({ rollout }) => rollout.split('/')[0]);
  expect(began).toHaveLength(2 * EACH);
  expect(began.slice(0, EACH)).toEqual(Array.from({ length: EACH }, () => 'train'));
  const described = await client.workflow.getHandle('eval/t-train-0/0').describe();
  expect(described.priority?.priorityKey).toBe(4);
});
