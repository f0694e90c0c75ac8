/** A module of one's own with losses and estimators: loaded once in each thread that needs its names. */

import { importOwn } from '../../modules/import-own.ts';

/** Errors: those of importing it. */
export async function loadAlgorithms(module: string | undefined): Promise<void> {
  if (module !== undefined) await importOwn(module);
}
