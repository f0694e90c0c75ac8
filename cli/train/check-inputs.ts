/** What a run needs on this machine, looked at before anything is started for it. */

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

/** Errors: `UserInputError` for an unknown task, or a policy that is not in Hugging Face layout; `ModelUnavailable`. */
export async function checkInputs({ task, policy }: RunConfig): Promise<void> {
  checkTask(task.name);
  await checkPolicy(policy.base);
}
