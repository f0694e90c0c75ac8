/** The workers that have reported themselves in this folder's store, on this host or another. */

import { storeUrlOf } from '../../connection/store-url.ts';
import { openStore, storeExists } from '../../store/open-store.ts';
import type { WorkerReport } from '../../store/store.ts';
import { stateOfWorker, type WorkerState } from '../../workers/report-worker.ts';
import { table } from '../terminal-text.ts';
import type { VerbContext } from '../verb.ts';

export interface KnownWorker extends WorkerReport {
  readonly state: WorkerState;
}

/** Empty, with a note, if the store cannot be read. */
export async function knownWorkers({ env, cwd, note }: VerbContext): Promise<readonly KnownWorker[]> {
  try {
    const url = storeUrlOf(env, cwd);
    if (!(await storeExists(url))) return [];
    const store = await openStore(url);
    try {
      return (await store.workers()).map((worker) => ({ ...worker, state: stateOfWorker(worker) }));
    } finally {
      await store.close();
    }
  } catch (error) {
    note(`workers are not listed: ${error instanceof Error ? error.message : String(error)}`);
    return [];
  }
}

export function workerLines(workers: readonly KnownWorker[]): string[] {
  if (workers.length === 0) return [];
  const rows = workers.map(({ role, host, pid, state, seen, since, build, queues }) => [
    role,
    host,
    String(pid),
    state,
    seen,
    since,
    build,
    queues.join(' '),
  ]);
  return table([['WORKER', 'HOST', 'PID', 'STATE', 'LAST SEEN', 'SINCE', 'BUILD', 'QUEUES'], ...rows]);
}
