/**
 * Describes a model before its weights are read: one that cannot be used here is refused at once, with the setting that
 * names it.
 */

import { UnsupportedAdapter } from '../../trainer/lora/adapter-config.ts';
import { UnsupportedModel } from '../../trainer/model/config.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

/** Numbers of the policy in a directory: parameters, vocabulary entries, positions that its configuration allows. */
export type DescribePolicy = (dir: string) => Promise<{ parameters: number; vocabulary: number; positions?: number }>;

/** Errors that a retry does not fix. */
const refused = [UnsupportedModel, UnsupportedAdapter, SyntaxError];

/**
 * Errors: `UserInputError` for `field` if the model's configuration needs something not implemented, or cannot be read.
 */
export async function describeModel(
  field: string,
  dir: string,
  describePolicy: DescribePolicy,
): ReturnType<DescribePolicy> {
  try {
    return await describePolicy(dir);
  } catch (error) {
    if (!refused.some((kind) => error instanceof kind)) throw error;
    throw new UserInputError(field, dir, `give another model: ${String(error)}`, { cause: error });
  }
}
