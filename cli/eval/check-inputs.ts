/** Checks what an eval needs on this machine before anything is started for it. */

import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { checkEndpoint } from '../../activities/orchestrator/sweep/resolve-policy.ts';
import { fileUri } from '../../protocol/policy-uri.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { checkAgent } from '../../config/open-tasks.ts';
import { checkTasks, type SweepTasks } from '../../config/sweep-config.ts';
import { checkPolicy } from '../../activities/orchestrator/open-policy.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { SettledSweep, SweepConfig } from '../../protocol/eval.ts';
import { backendOfUri } from '../../trainer/backends/registry.ts';
import { askedContext } from '../../config/policy-context.ts';
import { checkContextHere } from '../connect/context-here.ts';
import { modulesOf } from '../connect/run-modules.ts';

/** The folder of the policy `starter`. */
export const starter = join(packageRoot, 'examples', 'starter');

/** Only the workers know a run's checkpoints. Errors: `UserInputError` for a context that a policy cannot have. */
export async function checkContexts(config: SweepConfig): Promise<void> {
  for (const policy of config.policies) {
    if ('endpoint' in policy) continue;
    const reference = parsePolicyReference(policy.policy);
    if (reference.kind !== 'model' && reference.kind !== 'starter') continue;
    const model = reference.kind === 'model' ? reference.model : fileUri(starter);
    await checkContextHere(askedContext(config), model, `policies.${policy.name}`);
  }
}

export interface CheckedEval extends Pick<SweepTasks, 'sources'> {
  /** The configuration with the tasks that the data has. */
  readonly settled: SettledSweep;
}

/**
 * `loader` opens the dataset. Only the workers know a run's checkpoints. Errors: `UserInputError` for tasks or
 * directories that do not exist.
 */
export async function checkEvalInputs(config: SweepConfig, loader = new TaskLoader()): Promise<CheckedEval> {
  const { policies } = config;
  const modules = await modulesOf(config);
  checkAgent(config.agent, modules?.digest);
  const { tasks, sources } = await checkTasks(config.tasks, loader, modules?.digest, config.judges);
  for (const policy of policies) {
    const field = `policies.${policy.name}`;
    if ('endpoint' in policy) {
      await checkEndpoint(policy.endpoint, field);
      continue;
    }
    const reference = parsePolicyReference(policy.policy);
    if (reference.kind === 'model' && backendOfUri(reference.model, modules?.digest, field) === undefined)
      await checkPolicy(reference.model, field);
    if (reference.kind === 'starter') await checkPolicy(starter, field);
  }
  await checkContexts(config);
  return { settled: { ...config, tasks }, ...(sources && { sources }) };
}
