/** Evals as verbs name them (`eval/ID`), and their results in this working directory's store. */

import { type EvalResults, evalResultsOf } from '../../reports/evaluation/eval-results.ts';
import { unknownName } from '../connect/known-names.ts';
import type { LocalStore } from '../connect/local-store.ts';

const PREFIX = 'eval/';

/** The id of the eval in `name`; `undefined` for a run. */
export function evalOf(name: string): string | undefined {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : undefined;
}

/** Errors: `UserInputError` for an eval that does not exist. */
export async function localEval(
  id: string,
  { store, model }: Pick<LocalStore, 'store' | 'model'>,
): Promise<EvalResults> {
  const results = await evalResultsOf(id, store, model);
  if (results) return results;
  throw await unknownName(`${PREFIX}${id}`, model);
}
