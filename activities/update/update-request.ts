/** The request for an update to the engine: a function of the step's input and the records alone. */

import type { Store } from '../../store/store.ts';
import { nextKlCoefficient } from '../../trainer/algorithms/kl.ts';
import { learningRateAt } from '../../trainer/learning-rate.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { AlgorithmSettings } from '../../protocol/run-config.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { UpdateMetrics } from '../../protocol/algorithm.ts';
import type { RunRecord, UpdateEntry } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { pathOf } from '../../protocol/policy-uri.ts';
import { checkpointDir } from '../../reports/run-summary.ts';
import type { TrainingData } from './training-data.ts';
import { nameOfInput } from './update-input.ts';

type Kl = NonNullable<AlgorithmSettings['kl']>;

/** Metrics: the weight that a step was trained with, the KL that it measured, and over how many sequences. */
const COEFFICIENT = 'policy/kl_coefficient';
const MEASURED = ['loss/avg_kl', 'policy/policy_kl'] as const;
const SEQUENCES = 'policy/num_sequences';

/** The weight of KL after a step with these metrics. */
function nextWeight(
  { controller, target = 0.1, horizon = 10_000 }: Kl,
  metrics: Readonly<Record<string, number>>,
  weight: number,
): number {
  const measured = MEASURED.map((name) => metrics[name]).find((value) => value !== undefined);
  if (controller !== 'adaptive' || measured === undefined) return weight;
  return nextKlCoefficient(weight, { controller, target, horizon }, measured, metrics[SEQUENCES] ?? 0);
}

/**
 * The step's weight of KL: first the configuration's, then the controller's. A function of the records alone: a retried
 * update uses the same weight.
 */
export async function klCoefficientOf(
  kl: Kl,
  { run, step }: Pick<UpdateInput, 'run' | 'step'>,
  store: Store,
): Promise<number> {
  const metrics = (await store.get<UpdateEntry>(keys.update(run, step - 1)))?.metrics ?? {};
  return kl.controller === 'adaptive'
    ? nextWeight(kl, metrics, metrics[COEFFICIENT] ?? kl.coefficient)
    : kl.coefficient;
}

/** Policies are named by URIs. */
export interface Learning extends Pick<UpdateRequest, 'algorithm' | 'critic'> {
  readonly reference?: string;
}

/**
 * How the update learns: the step's learning rates and weight of KL, the reference policy of KL (the run's base), and
 * the model that its critic started from.
 */
export async function learningOf(input: UpdateInput, store: Store): Promise<Learning> {
  const plain = { ...input.algorithm, learningRate: learningRateAt(input.algorithm, input.step - 1, input.steps) };
  const { kl, critic } = input.algorithm;
  if (kl === undefined && critic === undefined) return { algorithm: plain };
  const run = await store.get<RunRecord>(keys.run(input.run));
  if (run === undefined)
    throw new Error(
      `Run ${input.run} is not in the store: its record names the reference policy and the critic's first model`,
    );
  const reference = kl && { reference: run.policy.base };
  const begin = critic && {
    critic: { base: run.critic?.base ?? run.policy.base, seed: run.seed, ...(critic.lora && { lora: critic.lora }) },
  };
  const algorithm = {
    ...plain,
    ...(kl && { kl: { ...kl, coefficient: await klCoefficientOf(kl, input, store) } }),
    ...(critic && { critic: { ...critic, learningRate: learningRateAt(critic, input.step - 1, input.steps) } }),
  };
  return { algorithm, ...reference, ...begin };
}

/** The embedded engine's request. */
export async function updateRequestOf(
  input: UpdateInput,
  prepared: TrainingData,
  store: Store,
): Promise<UpdateRequest> {
  const { policy, runDir, step, lora } = input;
  const { algorithm, reference, critic } = await learningOf(input, store);
  const request = {
    fromDir: pathOf(policy.uri),
    toDir: checkpointDir(runDir, step),
    toVersion: policy.version + 1,
    algorithm,
    ...(reference !== undefined && { referenceDir: pathOf(reference) }),
    ...(critic && { critic: { ...critic, base: pathOf(critic.base) } }),
    ...(lora === undefined ? {} : { lora }),
  };
  return { ...request, data: prepared.data, input: await nameOfInput(input, prepared, request) };
}

/** True if the data has any token to learn from. */
export const teaches = ({ data }: Pick<TrainingData, 'data'>): boolean => data.some(({ mask }) => mask.includes(1));

/** Metrics of a step none of whose groups teaches anything. */
export function nothingLearned({ kl }: UpdateRequest['algorithm']): Omit<UpdateMetrics, 'sha256'> {
  const nothing = { loss: 0, kl: 0, entropy: 0, gradNorm: 0, clipFraction: 0, trainedTokens: 0 };
  const metrics = kl === undefined ? {} : { [COEFFICIENT]: kl.coefficient };
  return { ...nothing, logprobDrift: { meanAbs: 0, maxAbs: 0 }, metrics };
}
