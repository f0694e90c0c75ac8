/** Reads an eval's configuration from a YAML file and the command line's settings, and checks it before any work. */

import { dirname, resolve } from 'node:path';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { EVAL_ID, resolveSweepConfig } from '../../config/sweep-config.ts';
import { placeEndpoint } from '../../config/sweep-policies.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { modelUri } from '../../trainer/hub/hub-id.ts';
import type { SweepConfig } from '../../protocol/eval.ts';
import { isTree, nameOfFile, readSettings } from '../../config/read-config.ts';

export interface EvalConfigOptions {
  readonly evalId?: string;
  /** `a.b=c`, the value in YAML. */
  readonly set?: readonly string[];
}

/** Resolves directories from the folder of the file that names them. */
function fromFolder(policy: unknown, folder: string): unknown {
  if (typeof policy === 'string')
    return parsePolicyReference(policy).kind === 'model' ? modelUri(policy, folder) : policy;
  if (isTree(policy) && typeof policy['policy'] === 'string')
    return { ...policy, policy: fromFolder(policy['policy'], folder) };
  if (isTree(policy) && 'endpoint' in policy) return { ...policy, endpoint: placeEndpoint(policy['endpoint'], folder) };
  return policy;
}

/**
 * The resolved configuration. Relative policies, modules and tasks are resolved from the file's folder, `dir` from
 * `cwd`. If neither file nor options have an id, the file's name is the eval's id.
 * Errors: `UserInputError` naming the field, its value and the remedy.
 */
export async function readSweepConfig(path: string, options: EvalConfigOptions, cwd: string): Promise<SweepConfig> {
  const tree = await readSettings(path, options.set);
  if ('policy' in tree && !('policies' in tree))
    throw new UserInputError('CONFIG', path, "give an eval's: this describes a run, for npx longhaul train");
  const { policies } = tree;
  const placed = Array.isArray(policies)
    ? policies.map((policy: unknown) => fromFolder(policy, dirname(path)))
    : policies;
  const id = options.evalId ?? tree['eval'] ?? nameOfFile(path, 'eval', EVAL_ID);
  return resolveSweepConfig(
    { ...tree, eval: id, ...(placed === undefined ? {} : { policies: placed }) },
    cwd,
    dirname(resolve(cwd, path)),
  );
}
