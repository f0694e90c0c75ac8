/**
 * The life of a worker process: it reports when it polls, drains on SIGTERM and SIGINT, and ends with a reason. A
 * second signal changes nothing: activities in progress have at most `shutdownForceTime`.
 */

import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { startTimeOf } from '#setup/process-identity.mjs';
import { Runtime, type Worker, type WorkerOptions } from '@temporalio/worker';
import { guardPlaces } from './allowed/guard.ts';
import { readPlaces } from './allowed/places.ts';
import type { Logger } from './logs/process-log.ts';
import { logsAbout, temporalLogger } from './logs/temporal-log.ts';
import type { Store } from '../store/store.ts';
import { buildOfPackage, reportWorker } from './report-worker.ts';
import type { Role, WorkerSettings } from './settings.ts';
import type { WorkerConnection } from '../connection/temporal-connection.ts';
import { holderOf, placeOf, watchPlace } from './watch-place.ts';

/** A fixed number of pollers: with autoscaling ones some tasks waited a minute. */
const pollers = (maximum: number) => ({ type: 'simple-maximum' as const, maximum });

/** What a role's process is given. */
export interface RoleContext {
  readonly settings: WorkerSettings;
  readonly temporal: WorkerConnection;
  readonly log: Logger;
}

/** The options that all workers of Longhaul share. */
export function commonOptions(temporal: WorkerConnection, slots: number): Omit<WorkerOptions, 'taskQueue'> {
  const inbound = temporal.watch?.interceptor;
  return {
    connection: temporal.connection,
    namespace: temporal.namespace,
    maxConcurrentActivityTaskExecutions: slots,
    activityTaskPollerBehavior: pollers(Math.min(4, slots)),
    workflowTaskPollerBehavior: pollers(4),
    // A task of a killed worker goes to another one after this time: half of Temporal's default.
    stickyQueueScheduleToStartTimeout: '5s',
    // Temporal's default of up to a minute would hide for that long that a host died or that a cancellation came.
    maxHeartbeatThrottleInterval: '3s',
    defaultHeartbeatThrottleInterval: '3s',
    // All interceptors are in this list: of two properties with one name only the last would count.
    interceptors: { activity: [logsAbout, ...(inbound ? [() => ({ inbound })] : []), guardPlaces(readPlaces())] },
    shutdownGraceTime: '20s',
    shutdownForceTime: '40s',
  };
}

/** To be called before the first worker. The SDK handles no signals, so that each role can close what it opened. */
export function installRuntime(log: Logger): void {
  Runtime.install({
    shutdownSignals: [],
    telemetryOptions: { logging: { filter: { core: 'WARN', other: 'ERROR' }, forward: {} } },
    logger: temporalLogger(log),
  });
}

export function readyFile(home: string, name: string): string {
  return join(home, 'ready', `${name}.json`);
}

async function announce(path: string, role: Role): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.${process.pid}`;
  await writeFile(aside, JSON.stringify({ role, pid: process.pid, at: new Date().toISOString() }));
  await rename(aside, path);
}

/** Errors: an `Error` if another live process has the place: it would end, and its supervisor would restart it. */
async function refuseTaken(path: string): Promise<void> {
  const holder = await holderOf(path);
  if (holder === undefined || holder === process.pid || startTimeOf(holder) === undefined) return;
  throw new Error(
    `the worker with process id ${holder} already has the ready file ${path}: unset LONGHAUL_WORKER_NAME, ` +
      'and this worker gets a file of its own',
  );
}

/** Runs `workers` until a signal, and reports them in `store`; `close` closes what the role opened. */
export async function runWorkers(
  role: Role,
  { settings, log }: Pick<RoleContext, 'settings' | 'log'>,
  workers: readonly Worker[],
  store: Store,
  close: () => Promise<void>,
  build = buildOfPackage(),
): Promise<void> {
  const name = process.env['LONGHAUL_WORKER_NAME'];
  // A worker that was started by hand has its own ready file, beside those of the stack's workers.
  const ready = readyFile(settings.home, name ?? `${role}-by-hand-${process.pid}`);
  const stop = () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  await refuseTaken(ready).catch((error: unknown) => close().finally(() => Promise.reject(error)));
  const running = workers.map((worker) => worker.run());
  await announce(ready, role);
  const queues = workers.map((worker) => worker.options.taskQueue);
  const endReports = reportWorker(store, { role, host: settings.host, build, queues }, (line) => log.warn(line));
  const lost = (reason: string) => {
    log.warn(`this worker ends: ${reason}`);
    stop();
  };
  const endWatch = name === undefined ? () => undefined : watchPlace(ready, lost);
  try {
    await Promise.all(running);
  } finally {
    endWatch();
    stop();
    if ((await placeOf(ready, process.pid)) === 'own') await rm(ready, { force: true });
    await endReports();
    await close();
  }
}
