/** What a run needs on this machine, looked at before anything is started for it. */

import { basename, join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { checkTasksOfRun } from '../../config/check-tasks.ts';
import { checkPolicy } from '../../activities/orchestrator/open-run.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { UserInputError } from '../../client/errors.ts';

/** `starter` is a name in evals and rollouts, and a path here: as in examples/, where a configuration is likely to come from. */
async function checkBase(base: string): Promise<void> {
  try {
    await checkPolicy(base);
  } catch (error) {
    if (!(error instanceof UserInputError) || basename(base) !== 'starter') throw error;
    throw new UserInputError(
      error.field,
      error.value,
      `${error.remedy}; the starter is ${join(packageRoot, 'examples', 'starter')}`,
      { cause: error },
    );
  }
}

/** Errors: `UserInputError` for an unknown task, for more tasks than there are, or a policy that is not in Hugging Face layout; `ModelUnavailable`. */
export async function checkInputs(config: RunConfig): Promise<void> {
  checkTasksOfRun(config);
  await checkBase(config.policy.base);
}
