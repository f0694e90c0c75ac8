/** What an eval needs on this machine, looked at before anything is started for it. */

import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { parsePolicyReference } from '../../activities/evaluation/policy-reference.ts';
import { checkTasks } from '../../activities/evaluation/sweep-config.ts';
import { checkPolicy } from '../../activities/open-run.ts';
import type { SweepConfig } from '../../workflows/eval-types.ts';

/** A run's checkpoints are known to the workers alone. Errors: `UserInputError` for tasks or directories that are not there. */
export async function checkEvalInputs({ tasks, policies }: SweepConfig): Promise<void> {
  checkTasks(tasks);
  for (const { name, policy } of policies) {
    const reference = parsePolicyReference(policy);
    const field = `policies.${name}`;
    if (reference.kind === 'directory') await checkPolicy(reference.dir, field);
    if (reference.kind === 'starter') await checkPolicy(join(packageRoot, 'examples', 'starter'), field);
  }
}
