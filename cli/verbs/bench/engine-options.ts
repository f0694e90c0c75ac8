/** Options of the benches of the engine, and one model after the other. */

import { BENCH_MODELS, type BenchModel } from '../../../benchmarks/engine/bench-models.ts';
import { UserInputError } from '../../../client/errors.ts';

export interface EngineFlags {
  readonly model: string;
  readonly batch: string;
  readonly tokens: string;
  readonly prompt: string;
  readonly rounds: string;
}

export function benchModels(name: string): BenchModel[] {
  const named = BENCH_MODELS.filter((one) => name === 'all' || one === name);
  if (named.length === 0) throw new UserInputError('--model', name, `give one of ${BENCH_MODELS.join(', ')}, all`);
  return named;
}

/** The first model's numbers at the top level, and those of all models in `models`. */
export async function perModel<T extends { readonly model: string }>(
  name: string,
  measure: (model: BenchModel) => Promise<T>,
) {
  const models: T[] = [];
  for (const model of benchModels(name)) models.push(await measure(model));
  const [first] = models;
  if (first === undefined) throw new TypeError('there is no model');
  return { ...first, models };
}
