/** The store as workers open it: a disk that is full or read-only holds them up and fails nothing; their log says so. */

import { WORKER_PATIENCE } from '../store/disk-patience.ts';
import { openSqliteStore } from '../store/sqlite-store.ts';
import type { Store } from '../store/store.ts';
import type { WorkerSettings } from './settings.ts';

function say(line: string): void {
  process.stderr.write(`${new Date().toISOString()} WARN ${line}\n`);
}

/** Errors: those of `openSqliteStore`. */
export function openWorkerStore({ storeDir }: Pick<WorkerSettings, 'storeDir'>): Store {
  return openSqliteStore(storeDir, { ...WORKER_PATIENCE, say });
}
