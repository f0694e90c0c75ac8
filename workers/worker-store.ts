/** The store as workers open it: on a full or read-only disk they wait, log that, and fail nothing. */

import { WORKER_PATIENCE } from '../store/disk-patience.ts';
import { openSqliteStore } from '../store/sqlite-store.ts';
import type { Store } from '../store/store.ts';
import type { RoleContext } from './run-worker.ts';

/** Errors: those of `openSqliteStore`. */
export function openWorkerStore({ settings, log }: Pick<RoleContext, 'settings' | 'log'>): Store {
  return openSqliteStore(settings.storeDir, { ...WORKER_PATIENCE, say: (line) => log.warn(line) });
}
