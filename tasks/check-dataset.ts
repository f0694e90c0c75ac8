/** What an `open` returned is a dataset, or is refused by the member that is wrong: modules run untyped. */

import type { Dataset } from './environment.ts';

const shown = (value: unknown): string =>
  value === undefined || typeof value === 'function' ? typeof value : JSON.stringify(value).slice(0, 100);

/** Errors: `TypeError`, with the environment's name and what to return. */
export function checkDataset(name: string, given: unknown): Dataset {
  const refused = (what: string, remedy: string) =>
    new TypeError(`open of environment ${name} returned ${what}: ${remedy}`);
  if (typeof given !== 'object' || given === null)
    throw refused(shown(given), 'return a dataset, { digest, splits, load } or recordsDataset(…)');
  const { digest, splits, load } = given as Partial<Record<keyof Dataset, unknown>>;
  if (typeof digest !== 'string' || digest === '')
    throw refused(`the digest ${shown(digest)}`, 'give a text that changes if a record changes');
  if (typeof splits !== 'object' || splits === null || Array.isArray(splits))
    throw refused(`the splits ${shown(splits)}`, 'give the number of tasks of each split: { train: 100 }');
  for (const [split, count] of Object.entries(splits as Record<string, unknown>)) {
    if (!Number.isSafeInteger(count) || Number(count) < 0)
      throw refused(`${shown(count)} tasks of split ${split}`, 'give a whole number');
  }
  if (typeof load !== 'function') throw refused(`the load ${shown(load)}`, 'give a function (split, index) of a task');
  return given as Dataset;
}
