/** The modules of a run, where an update's thread finds them. */

import { cacheStored } from '../../modules/import-bundle.ts';
import { keys, type RunRecord } from '../../protocol/records.ts';
import type { Store } from '../../store/store.ts';

/** Puts the bundle of the run's modules into this machine's cache. Errors: those of `cacheStored`. */
export async function cacheModulesOf(run: string, store: Store): Promise<void> {
  const record = await store.get<RunRecord>(keys.run(run));
  if (record?.modules !== undefined) await cacheStored(record.modules, store);
}
