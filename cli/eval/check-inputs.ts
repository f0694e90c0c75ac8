/** Checks what an eval needs on this machine before anything is started for it. */

import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { checkEndpoint } from '../../activities/orchestrator/sweep/resolve-policy.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { checkTasks } from '../../config/sweep-config.ts';
import { checkPolicy } from '../../activities/orchestrator/open-policy.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { SweepConfig } from '../../protocol/eval.ts';
import { backendOfUri } from '../../trainer/backends/registry.ts';
import { modulesOf } from '../connect/run-modules.ts';

/** Only the workers know a run's checkpoints. Errors: `UserInputError` for tasks or directories that do not exist. */
export async function checkEvalInputs(config: SweepConfig): Promise<void> {
  const { tasks, policies } = config;
  const modules = await modulesOf(config);
  await checkTasks(tasks, new TaskLoader(), modules?.digest);
  for (const policy of policies) {
    const field = `policies.${policy.name}`;
    if ('endpoint' in policy) {
      await checkEndpoint(policy.endpoint, field);
      continue;
    }
    const reference = parsePolicyReference(policy.policy);
    if (reference.kind === 'model' && backendOfUri(reference.model, modules?.digest, field) === undefined)
      await checkPolicy(reference.model, field);
    if (reference.kind === 'starter') await checkPolicy(join(packageRoot, 'examples', 'starter'), field);
  }
}
