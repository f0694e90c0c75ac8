/** A bench's own Temporal server, and its workers in the bench's process; both end with it. */

import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { commonOptions } from '../workers/run-worker.ts';
import { startPrivateServer } from '../stack/temporal-server/private-server.ts';
import { QUEUES } from '../protocol/queues.ts';

const logger = new DefaultLogger('ERROR');

/** Starts a server with its database in a new folder; afterwards stops it and removes the folder. */
export async function withOwnTemporal<T>(
  work: (own: { readonly address: string; readonly dir: string; readonly pid: number }) => Promise<T>,
): Promise<T> {
  // The SDK's native part would write to stdout, where the bench prints its result.
  Runtime.install({
    shutdownSignals: [],
    logger,
    telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' }, forward: {} } },
  });
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-bench-'));
  // Also if the process ends early; its server ends with it.
  const leaveNothing = () => rmSync(dir, { recursive: true, force: true });
  process.once('exit', leaveNothing);
  try {
    const server = await startPrivateServer(dir);
    return await work({ address: server.address, dir, pid: server.pid }).finally(() => server.stop());
  } finally {
    process.off('exit', leaveNothing);
    await rm(dir, { recursive: true, force: true });
  }
}

export interface OwnWorkers {
  readonly address: string;
  /** The module of the workflows: its path from `from`, without extension. Absent: another process runs them. */
  readonly workflows?: string;
  readonly from: ImportMeta;
  /** Activities by task queue; those of `orchestrator` belong to the worker that runs the workflows. */
  readonly activities: Readonly<Record<string, object>>;
  readonly slots: number;
  readonly cachedWorkflows: number;
  /** Interval between an activity's heartbeats; absent: as in every worker. */
  readonly heartbeatEvery?: '10s';
}

async function bundleOf({ workflows, from }: OwnWorkers): Promise<string | undefined> {
  if (workflows === undefined) return undefined;
  const path = new URL(`${workflows}${extname(from.filename)}`, from.url);
  const workflowsPath = fileURLToPath(path);
  // Like the orchestrator's bundle: workflows share modules.
  return (await bundleWorkflowCode({ workflowsPath, preloadModules: [workflowsPath], logger })).code;
}

/** Starts workers; returns a function that stops them. */
export async function startOwnWorkers(given: OwnWorkers): Promise<() => Promise<void>> {
  const connection = await NativeConnection.connect({ address: given.address });
  const code = await bundleOf(given);
  // Without the guard of inputs: server and workers are the bench's own, so no foreign input reaches them.
  const { interceptors: _guard, ...common } = commonOptions(
    { connection, namespace: 'default', address: given.address },
    given.slots,
  );
  const every = given.heartbeatEvery;
  const options = {
    ...common,
    ...(every ? { maxHeartbeatThrottleInterval: every, defaultHeartbeatThrottleInterval: every } : {}),
  };
  const { [QUEUES.orchestrator]: own, ...others } = given.activities;
  const workers = await Promise.all([
    ...(code === undefined
      ? []
      : [
          Worker.create({
            ...options,
            taskQueue: QUEUES.orchestrator,
            workflowBundle: { code },
            maxCachedWorkflows: given.cachedWorkflows,
            ...(own ? { activities: { ...own } } : {}),
          }),
        ]),
    ...Object.entries(others).map(([taskQueue, activities]) =>
      Worker.create({ ...options, taskQueue, activities: { ...activities } }),
    ),
  ]);
  const running = Promise.all(workers.map((worker) => worker.run()));
  return async () => {
    for (const worker of workers) worker.shutdown();
    await running;
    await connection.close();
  };
}
