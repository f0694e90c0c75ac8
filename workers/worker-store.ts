/** The store and the tasks as workers open them: on a full or read-only disk they wait, log that, and fail nothing. */

import { WORKER_PATIENCE } from '../store/disk-patience.ts';
import { openStore } from '../store/open-store.ts';
import type { Store } from '../store/store.ts';
import { TaskLoader } from '../tasks/task-loader.ts';
import { checkCodePlace } from './allowed/module-places.ts';
import { checkPlace, readPlaces } from './allowed/places.ts';
import type { RoleContext } from './run-worker.ts';

/** Errors: those of `openStore`. */
export function openWorkerStore({ settings, log }: Pick<RoleContext, 'settings' | 'log'>): Promise<Store> {
  return openStore(settings.store, { ...WORKER_PATIENCE, say: (line) => log.warn(line) });
}

/** Datasets are read only from the places where this worker may read; the code of environments, as that of modules. */
export function workerTasks(store: Store): TaskLoader {
  const places = readPlaces();
  return new TaskLoader(
    store,
    (field, path) => checkPlace(places, 'read', field, path),
    (field, path) => checkCodePlace(field, path),
  );
}
