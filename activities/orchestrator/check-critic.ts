/**
 * The model that a run's critic starts from: checked when the run opens, so that one that cannot be trained is refused
 * with its field.
 */

import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { criticFolder, readCheckpointRecord } from '../../trainer/checkpoints/checkpoint.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { checkAdapter } from './check-adapter.ts';
import { type DescribePolicy, describeModel } from './describe-model.ts';

/**
 * Errors: `UserInputError` for a base that is not a model, that cannot be trained here, or that has other tokens than
 * the policy.
 */
async function checkBase(base: string, vocabulary: number, describePolicy: DescribePolicy): Promise<string> {
  const field = 'algorithm.critic.base';
  const dir = await resolveModel(base);
  await access(join(dir, 'config.json')).catch(() => {
    throw new UserInputError(field, dir, 'give a directory with config.json: a model in Hugging Face layout');
  });
  const own = (await describeModel(field, dir, describePolicy)).vocabulary;
  if (own === vocabulary) return dir;
  throw new UserInputError(
    field,
    dir,
    `give a model with the policy's tokens: it has ${own} vocabulary entries, the policy ${vocabulary}`,
  );
}

/**
 * The directory of the model that a critic starts from; `undefined` without a critic. Errors: `UserInputError`, also
 * for settings that have no effect because the base policy has a critic beside it.
 */
export async function checkCritic(
  { algorithm: { critic } }: RunConfig,
  base: string,
  vocabulary: number,
  describePolicy: DescribePolicy,
): Promise<string | undefined> {
  if (critic === undefined) return undefined;
  const isThere = (await readCheckpointRecord(base))?.critic !== undefined;
  if (isThere && critic.base !== undefined) {
    throw new UserInputError(
      'algorithm.critic.base',
      critic.base,
      `leave it out: ${base} has a critic beside it, and the run continues to train that one`,
    );
  }
  if (isThere)
    await checkAdapter(
      'algorithm.critic.lora',
      critic.lora,
      join(base, criticFolder),
      'the adapter is trained in any case',
    );
  const dir = critic.base === undefined ? base : await checkBase(critic.base, vocabulary, describePolicy);
  if (!isThere) await checkAdapter('algorithm.critic.lora', critic.lora, dir, 'then all weights are trained');
  return dir;
}
