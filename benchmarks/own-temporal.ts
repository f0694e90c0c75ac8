/** A Temporal server and workers of a bench's own, all in one process and gone when it ends. */

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

/** Starts a server with its database in a folder of its own, and leaves neither behind. */
export async function withOwnTemporal<T>(
  work: (own: { readonly address: string; readonly dir: string; readonly pid: number }) => Promise<T>,
): Promise<T> {
  // Its native part would write to stdout, which is the bench's own.
  Runtime.install({
    shutdownSignals: [],
    logger,
    telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' }, forward: {} } },
  });
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-bench-'));
  // Also where the process ends in the middle; its server ends with it.
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
  /** The module whose exports are the workflows, without its extension, beside `from`; absent: another process runs them. */
  readonly workflows?: string;
  readonly from: ImportMeta;
  /** By task queue; those of `orchestrator` belong to the worker that runs the workflows. */
  readonly activities: Readonly<Record<string, object>>;
  readonly slots: number;
  readonly cachedWorkflows: number;
  /** Between two heartbeats of an activity; absent: as in every worker. */
  readonly heartbeatEvery?: '10s';
}

async function bundleOf({ workflows, from }: OwnWorkers): Promise<string | undefined> {
  if (workflows === undefined) return undefined;
  const path = new URL(`${workflows}${extname(from.filename)}`, from.url);
  const workflowsPath = fileURLToPath(path);
  // As the orchestrator's: modules are shared.
  return (await bundleWorkflowCode({ workflowsPath, preloadModules: [workflowsPath], logger })).code;
}

/** Returns what stops them. */
export async function startOwnWorkers(given: OwnWorkers): Promise<() => Promise<void>> {
  const connection = await NativeConnection.connect({ address: given.address });
  const code = await bundleOf(given);
  // What these workers do is the bench's own, and so is their server: no input of others comes to them.
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
