/**
 * Records the golden histories of the Tinker API's lanes anew: `node test/support/record-tinker-histories.ts`. When:
 * see record-histories.ts.
 */

import { Client, Connection } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { NativeConnection, Worker } from '@temporalio/worker';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { kindQueue, QUEUES } from '../../protocol/queues.ts';
import {
  type DrainOutcome,
  laneWorkflowId,
  TINKER_QUEUE,
  TINKER_WAKE,
  TINKER_WORKFLOW,
  type TinkerActivities,
  type TinkerLane,
} from '../../protocol/tinker-lanes.ts';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';
import { buildWorkflowBundle } from '../../workers/workflow-bundle.ts';
import { saveHistory } from './save-history.ts';

const KIND = 'k1';
/** So that a lane of some drains continues in a second history. */
const SUGGESTED = 60;

const dir = mkdtempSync(join(tmpdir(), 'longhaul-histories-'));
const server = await startPrivateServer(dir, [
  `--dynamic-config-value=limit.historyCount.suggestContinueAsNew=${SUGGESTED}`,
]);
const connection = await NativeConnection.connect({ address: server.address });
const client = new Client({ connection: await Connection.connect({ address: server.address }) });

/** What the drains of the lane that is recorded do, one after the other; then it is idle. */
let script: Array<() => DrainOutcome> = [];
let drains = 0;
const activities: TinkerActivities = {
  openTinkerLane: async () => ({ kind: KIND }),
  drainTinkerLane: async () => {
    drains += 1;
    return (script.shift() ?? (() => ({ end: 'idle' })))();
  },
};
const more = (): DrainOutcome => ({ end: 'more' });
const idle = (): DrainOutcome => ({ end: 'idle' });
const isBusy = (): never => {
  throw new Error('the device is busy');
};
const isBroken = (): never => {
  throw ApplicationFailure.nonRetryable('the journal has another format', 'JournalFormatUnknown');
};

const workers = await Promise.all([
  Worker.create({
    connection,
    taskQueue: QUEUES.orchestrator,
    workflowBundle: { codePath: await buildWorkflowBundle() },
  }),
  ...[undefined, KIND].map((kind) =>
    Worker.create({ connection, taskQueue: kindQueue(TINKER_QUEUE, kind), activities: { ...activities } }),
  ),
]);
const running = workers.map((worker) => worker.run());

const wake = (lane: TinkerLane) =>
  client.workflow.signalWithStart(TINKER_WORKFLOW, {
    workflowId: laneWorkflowId(lane),
    taskQueue: QUEUES.orchestrator,
    args: [{ lane }],
    signal: TINKER_WAKE,
    signalArgs: [],
  });

async function untilDrained(count: number): Promise<void> {
  while (drains < count) await sleep(50);
  // The workflow hears of the last one's end.
  await sleep(500);
}

/** A lane that fails, is woken when it is idle, and waits at the end. */
async function record(name: string, lane: TinkerLane, given: ReadonlyArray<() => DrainOutcome>): Promise<void> {
  [script, drains] = [[...given], 0];
  const { signaledRunId: first } = await wake(lane);
  await untilDrained(given.length);
  await wake(lane);
  await untilDrained(given.length + 1);
  saveHistory(server.address, name, laneWorkflowId(lane), first);
  const latest = await client.workflow.getHandle(laneWorkflowId(lane)).describe();
  if (latest.runId !== first)
    saveHistory(server.address, `${name}-in-a-second-history`, laneWorkflowId(lane), latest.runId);
  await client.workflow.getHandle(laneWorkflowId(lane)).terminate();
}

await record('tinker-model', { what: 'model', model: 's:train:0' }, [isBusy, more, isBroken, idle]);
await record('tinker-sampling', { what: 'sampling', base: 'base' }, [more, isBusy, idle]);
await record('tinker-model-continued', { what: 'model', model: 's:train:1' }, [
  ...Array.from({ length: 14 }, () => more),
  idle,
]);

for (const worker of workers) worker.shutdown();
await Promise.all(running);
await client.connection.close();
await connection.close();
await server.stop();
rmSync(dir, { recursive: true, force: true });
