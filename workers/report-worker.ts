/**
 * A worker's sign of life in the store: which process of which host polls which queues, and when it was last seen. It
 * never fails or delays the worker: a report that cannot be written is left out.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { packageRoot } from '#setup/paths.mjs';
import { startTimeOf } from '#setup/process-identity.mjs';
import type { Store, WorkerReport } from '../store/store.ts';

const EVERY_MS = 10_000;
/** A worker that has not reported for this long is shown as silent. */
export const SILENT_AFTER_MS = 6 * EVERY_MS;
/** An orderly end waits this long for its last write at most. */
const LAST_WRITE_MS = 2_000;

/** The version of the package, of which this process runs the code. */
export function buildOfPackage(): string {
  return (JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string }).version;
}

export type WorkerIdentity = Omit<WorkerReport, 'id' | 'pid' | 'since' | 'seen'>;

/** Removes the reports of this host's processes that have ended without removing them: they were killed. */
async function removeKilled(store: Store, host: string): Promise<void> {
  for (const worker of await store.workers())
    if (worker.host === host && startTimeOf(worker.pid) === undefined) await store.removeWorker(worker.id);
}

/**
 * Reports this process from now on, until the returned function is called. `note` receives the first error, and the
 * first one after each success.
 */
export function reportWorker(
  store: Store,
  identity: WorkerIdentity,
  note: (line: string) => void,
  everyMs = EVERY_MS,
): () => Promise<void> {
  const { pid } = process;
  const since = new Date().toISOString();
  const id = `${identity.host}/${pid}`;
  let writing: Promise<void> | undefined;
  let isFailing = false;
  const write = async (isFirst: boolean): Promise<void> => {
    try {
      if (isFirst) await removeKilled(store, identity.host);
      await store.reportWorker({ ...identity, id, pid, since, seen: new Date().toISOString() });
      isFailing = false;
    } catch (error) {
      if (!isFailing) note(`this worker cannot report itself in the store: ${String(error)}`);
      isFailing = true;
    }
    writing = undefined;
  };
  // A write may wait for the disk: the next one starts after it.
  const report = (isFirst = false) => void (writing ??= write(isFirst));
  report(true);
  const timer = setInterval(report, everyMs).unref();
  return async () => {
    clearInterval(timer);
    const removed = (async () => {
      await writing;
      await store.removeWorker(id);
    })().catch(() => undefined);
    await Promise.race([removed, sleep(LAST_WRITE_MS, undefined, { ref: false })]);
  };
}

export type WorkerState = 'live' | 'silent';

/** Whether a worker has reported lately. */
export function stateOfWorker({ seen }: Pick<WorkerReport, 'seen'>, now = Date.now()): WorkerState {
  return now - Date.parse(seen) <= SILENT_AFTER_MS ? 'live' : 'silent';
}
