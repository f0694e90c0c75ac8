/** Evals as verbs name them (`eval/ID`), and their results in this working directory's store. */

import { type EvalResults, evalResultsOf } from '../../reports/evaluation/eval-results.ts';
import type { EvalRecord } from '../../reports/evaluation/eval-records.ts';
import type { Store } from '../../store/store.ts';
import { UserInputError } from '../../client/errors.ts';

const PREFIX = 'eval/';

/** The id of the eval in `name`; `undefined` for a run. */
export function evalOf(name: string): string | undefined {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : undefined;
}

/** Errors: `UserInputError` for an eval that does not exist. */
export async function localEval(id: string, store: Store): Promise<EvalResults> {
  const results = await evalResultsOf(id, store);
  if (results) return results;
  const known = (await store.list<EvalRecord>('eval:')).map(({ value }) => `${PREFIX}${value.eval}`);
  throw new UserInputError(
    'RUN',
    `${PREFIX}${id}`,
    known.length > 0 ? `give one of ${known.join(', ')}` : 'there is no eval yet',
  );
}
