/** What a run needs on this machine, looked at before anything is started for it. */

import { basename, join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { checkPolicy } from '../../activities/run/open-run.ts';
import { environmentOf } from '../../tasks/registry.ts';
import type { RunConfig } from '../../workflows/messages/run-config.ts';
import { UserInputError } from '../errors.ts';

function checkTask(name: string): void {
  try {
    environmentOf(`${name}-train-0`);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new UserInputError('task.name', name, `name one that is known here (${error.message})`);
  }
}

/** `starter` is a name in evals and rollouts, and a path here: as in examples/, where a configuration is likely to come from. */
async function checkBase(base: string): Promise<void> {
  try {
    await checkPolicy(base);
  } catch (error) {
    if (!(error instanceof UserInputError) || basename(base) !== 'starter') throw error;
    throw new UserInputError(error.field, error.value, `${error.remedy}; the starter is ${join(packageRoot, 'examples', 'starter')}`, { cause: error });
  }
}

/** Errors: `UserInputError` for an unknown task, or a policy that is not in Hugging Face layout; `ModelUnavailable`. */
export async function checkInputs({ task, policy }: RunConfig): Promise<void> {
  checkTask(task.name);
  await checkBase(policy.base);
}
