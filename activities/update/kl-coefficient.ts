/** The weight of KL in a step's update: first the configuration's, then the controller's, computed from the records. */

import { nextKlCoefficient } from '../../trainer/algorithms/kl.ts';
import type { Store } from '../../store/store.ts';
import type { AlgorithmSettings } from '../../protocol/run-config.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { UpdateEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';

type Kl = NonNullable<AlgorithmSettings['kl']>;

/** Metrics: the weight that a step was trained with, the KL that it measured, and over how many sequences. */
export const COEFFICIENT = 'policy/kl_coefficient';
const MEASURED = ['loss/avg_kl', 'policy/policy_kl'] as const;
const SEQUENCES = 'policy/num_sequences';

function next(
  { controller, target = 0.1, horizon = 10_000 }: Kl,
  metrics: Readonly<Record<string, number>>,
  weight: number,
): number {
  const measured = MEASURED.map((name) => metrics[name]).find((value) => value !== undefined);
  if (controller !== 'adaptive' || measured === undefined) return weight;
  return nextKlCoefficient(weight, { controller, target, horizon }, measured, metrics[SEQUENCES] ?? 0);
}

/** A function of the records alone: a retried update uses the same weight. */
export async function klCoefficientOf(
  kl: Kl,
  { run, step }: Pick<UpdateInput, 'run' | 'step'>,
  store: Store,
): Promise<number> {
  const metrics = (await store.get<UpdateEntry>(keys.update(run, step - 1)))?.metrics ?? {};
  return kl.controller === 'adaptive' ? next(kl, metrics, metrics[COEFFICIENT] ?? kl.coefficient) : kl.coefficient;
}
