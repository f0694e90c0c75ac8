/**
 * The life of a worker process: it says when it polls, drains on SIGTERM and SIGINT, and ends with its reason. A
 * second signal does not hurry it: what is under way has `shutdownForceTime` at most.
 */

import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { startTimeOf } from '#setup/process-identity.mjs';
import { Runtime, type Worker, type WorkerOptions } from '@temporalio/worker';
import { guardPlaces } from './allowed/guard.ts';
import { readPlaces } from './allowed/places.ts';
import type { Logger } from './logs/process-log.ts';
import { logsAbout, temporalLogger } from './logs/temporal-log.ts';
import type { Role, WorkerSettings } from './settings.ts';
import type { WorkerConnection } from '../connection/temporal-connection.ts';
import { holderOf, placeOf, watchPlace } from './watch-place.ts';

/** Pollers that never scale: autoscaling ones left stragglers of a minute. */
const pollers = (maximum: number) => ({ type: 'simple-maximum' as const, maximum });

/** What a role runs with. */
export interface RoleContext {
  readonly settings: WorkerSettings;
  readonly temporal: WorkerConnection;
  readonly log: Logger;
}

/** What every worker of Longhaul has in common. */
export function commonOptions(temporal: WorkerConnection, slots: number): Omit<WorkerOptions, 'taskQueue'> {
  const inbound = temporal.watch?.interceptor;
  return {
    connection: temporal.connection,
    namespace: temporal.namespace,
    maxConcurrentActivityTaskExecutions: slots,
    activityTaskPollerBehavior: pollers(Math.min(4, slots)),
    workflowTaskPollerBehavior: pollers(4),
    // A task that waits for a worker which was killed is given to another one after so long: half of Temporal's own.
    stickyQueueScheduleToStartTimeout: '5s',
    // Temporal's own, of up to a minute, would hide for that long that a host has died or a cancellation came.
    maxHeartbeatThrottleInterval: '3s',
    defaultHeartbeatThrottleInterval: '3s',
    // Of two properties of one name the last alone would stand: every interceptor is in this list.
    interceptors: { activity: [logsAbout, ...(inbound ? [() => ({ inbound })] : []), guardPlaces(readPlaces())] },
    shutdownGraceTime: '20s',
    shutdownForceTime: '40s',
  };
}

/** Before any worker of the process is made. Signals are ours, so that each role can close what it opened. */
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

/** Errors: an `Error` where another process that lives has the place: it would end, and who started it would start it again. */
async function refuseTaken(path: string): Promise<void> {
  const holder = await holderOf(path);
  if (holder === undefined || holder === process.pid || startTimeOf(holder) === undefined) return;
  throw new Error(
    `the worker with process id ${holder} has the place ${path} in its stack: unset LONGHAUL_WORKER_NAME, and this one gets a place of its own`,
  );
}

/** Runs `workers` until a signal; `close` gives back what the role opened. */
export async function runWorkers(
  role: Role,
  { settings, log }: Pick<RoleContext, 'settings' | 'log'>,
  workers: readonly Worker[],
  close: () => Promise<void>,
): Promise<void> {
  const name = process.env['LONGHAUL_WORKER_NAME'];
  // One that was started by hand has a place of its own, beside those of the stack's own workers.
  const ready = readyFile(settings.home, name ?? `${role}-by-hand-${process.pid}`);
  const stop = () => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  await refuseTaken(ready).catch((error: unknown) => close().finally(() => Promise.reject(error)));
  const running = workers.map((worker) => worker.run());
  await announce(ready, role);
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
    await close();
  }
}
