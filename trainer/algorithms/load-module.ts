/** A module of one's own with losses and estimators: loaded once in each thread that needs its names. */

import { pathToFileURL } from 'node:url';

/** Errors: those of importing it. */
export async function loadAlgorithms(module: string | undefined): Promise<void> {
  if (module !== undefined) await import(pathToFileURL(module).href);
}
