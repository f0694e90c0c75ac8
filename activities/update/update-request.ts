/** The request for an update to the engine: a function of the step's input and the records alone. */

import type { Store } from '../../store/store.ts';
import { learningRateAt } from '../../trainer/learning-rate.ts';
import type { UpdateRequest } from '../../trainer/update-request.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import { klCoefficientOf } from './kl-coefficient.ts';
import { keys, type RunRecord } from '../../protocol/records.ts';
import { pathOf } from '../../protocol/policy-uri.ts';
import { checkpointDir } from '../../reports/run-summary.ts';
import type { TrainingData } from './training-data.ts';
import { nameOfInput } from './update-input.ts';

/**
 * How the update learns: the step's learning rates and weight of KL, the reference policy of KL (the run's base), and
 * the model that its critic started from.
 */
async function learning(
  input: UpdateInput,
  store: Store,
): Promise<Pick<UpdateRequest, 'algorithm' | 'referenceDir' | 'critic'>> {
  const plain = { ...input.algorithm, learningRate: learningRateAt(input.algorithm, input.step - 1, input.steps) };
  const { kl, critic } = input.algorithm;
  if (kl === undefined && critic === undefined) return { algorithm: plain };
  const run = await store.get<RunRecord>(keys.run(input.run));
  if (run === undefined)
    throw new Error(
      `Run ${input.run} is not in the store: its record names the reference policy and the critic's first model`,
    );
  const reference = kl && { referenceDir: pathOf(run.policy.base) };
  const begin = critic && {
    critic: {
      base: pathOf(run.critic?.base ?? run.policy.base),
      seed: run.seed,
      ...(critic.lora && { lora: critic.lora }),
    },
  };
  const algorithm = {
    ...plain,
    ...(kl && { kl: { ...kl, coefficient: await klCoefficientOf(kl, input, store) } }),
    ...(critic && { critic: { ...critic, learningRate: learningRateAt(critic, input.step - 1, input.steps) } }),
  };
  return { algorithm, ...reference, ...begin };
}

export async function updateRequestOf(
  input: UpdateInput,
  prepared: TrainingData,
  store: Store,
): Promise<UpdateRequest> {
  const { policy, runDir, step, lora } = input;
  const request = {
    fromDir: pathOf(policy.uri),
    toDir: checkpointDir(runDir, step),
    toVersion: policy.version + 1,
    ...(await learning(input, store)),
    ...(lora === undefined ? {} : { lora }),
  };
  return { ...request, data: prepared.data, input: await nameOfInput(input, prepared, request) };
}

/** True if the data has any token to learn from. */
export const teaches = ({ data }: Pick<TrainingData, 'data'>): boolean => data.some(({ mask }) => mask.includes(1));
