/** Which rollouts belong to a run, an eval, or one step of a run. */

import { batchesOf, type StepEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { LocalStore } from './local-store.ts';
import { UserInputError } from '../../client/errors.ts';
import { evalOf } from '../eval/local-eval.ts';

/** Prefixes of the rollouts' ids. Errors: `UserInputError` for a step that does not exist. */
export async function rolloutPrefixes(
  run: string,
  step: string | undefined,
  { store, model }: Pick<LocalStore, 'store' | 'model'>,
): Promise<string[]> {
  if (evalOf(run) !== undefined) {
    if (step !== undefined) throw new UserInputError('--step', step, 'an eval has no steps; leave it out');
    return [`${run}/`];
  }
  if (step === undefined) return [`train/${run}/`];
  if (!/^\d+$/.test(step)) throw new UserInputError('--step', step, 'give a whole number');
  const entry = await store.get<StepEntry>(keys.step(run, Number(step)));
  const batches = batchesOf(entry?.record ?? { step: Number(step) });
  if (entry !== undefined || (await model.rollouts({ run, batches })).length > 0)
    return batches.map((batch) => `train/${run}/${batch}/`);
  const made = (await store.list<StepEntry>(`step:${run}/`)).at(-1)?.value.record.step ?? 0;
  throw new UserInputError(
    '--step',
    step,
    made === 0
      ? 'leave it out: the run has completed no step yet'
      : `give one from 1 to ${made}: the run has no rollouts of other steps`,
  );
}
