/** Checks what a run needs on this machine before anything is started for it. */

import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { checkDefinitions } from '../../config/algorithm/config.ts';
import { type CheckedTasks, checkTasksOfRun } from '../../config/open-tasks.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { checkBackend, checkPolicy } from '../../activities/orchestrator/open-policy.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { UserInputError } from '../../client/errors.ts';
import { askedContext } from '../../config/policy-context.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { pathOf, schemeOf } from '../../protocol/policy-uri.ts';
import { checkContextHere } from '../connect/context-here.ts';
import { DataUnavailable } from '../../trainer/hub/hub-file.ts';
import { ModelUnavailable } from '../../trainer/hub/resolve-model.ts';
import { modulesOf } from '../connect/run-modules.ts';

/**
 * Evals and rollouts accept names of policies; here they are paths, as in the configurations of examples/.
 * Errors: `UserInputError` for a name that is no folder.
 */
function refuseName({ policy: { base }, dir }: RunConfig): void {
  const path = schemeOf(base) === 'file' ? pathOf(base, 'policy.base') : undefined;
  const name = path === undefined ? base : basename(path);
  if (parsePolicyReference(name).kind === 'model' || (path !== undefined && existsSync(path))) return;
  throw new UserInputError(
    'policy.base',
    name,
    'give the directory of a model, a hub id such as Qwen/Qwen3-0.6B, or a URI: names of policies are for evals and ' +
      `rollouts. A checkpoint of a run is the directory ${dir}/RUN/checkpoints/step-N; ` +
      `the starter is ${join(packageRoot, 'examples', 'starter')}`,
  );
}

/** What a dry run found. */
export interface PlannedInputs {
  /** Absent if the records of a task are on a hub that cannot be reached. */
  readonly tasks?: CheckedTasks;
  /** What could not be checked, and why. */
  readonly unchecked: readonly string[];
}

/** The reason, if a hub cannot be reached; `undefined`: something else is wrong. */
const unreached = (error: unknown): string | undefined =>
  (error instanceof ModelUnavailable || error instanceof DataUnavailable) && error.unreachable
    ? error.message
    : undefined;

/**
 * As `checkInputs`, but what is on a hub that cannot be reached is named, and everything else is checked. `loader`
 * opens the datasets.
 */
export async function checkPlanned(config: RunConfig, loader = new TaskLoader()): Promise<PlannedInputs> {
  const unchecked: string[] = [];
  const orNamed = async <T>(check: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await check();
    } catch (error) {
      const reason = unreached(error);
      if (reason === undefined) throw error;
      unchecked.push(reason);
      return undefined;
    }
  };
  refuseName(config);
  const modules = await modulesOf(config);
  checkDefinitions(config.algorithm, config.training?.mode, modules?.digest);
  const tasks = await orNamed(() => checkTasksOfRun(config, loader, modules?.digest));
  if (checkBackend(config, modules?.digest) === undefined) await orNamed(() => checkPolicyHere(config));
  return { unchecked, ...(tasks && { tasks }) };
}

async function checkPolicyHere(config: RunConfig): Promise<void> {
  await checkPolicy(config.policy.base);
  await checkContextHere(askedContext(config), config.policy.base, 'policy.base');
}

/**
 * Errors: `UserInputError` for modules that do not load, for settings that the backend does not support, for an unknown
 * task, for more tasks than exist, or a policy that is not in Hugging Face layout, or whose context is too short;
 * `ModelUnavailable`.
 */
export async function checkInputs(config: RunConfig): Promise<CheckedTasks> {
  refuseName(config);
  const modules = await modulesOf(config);
  checkDefinitions(config.algorithm, config.training?.mode, modules?.digest);
  const tasks = await checkTasksOfRun(config, new TaskLoader(), modules?.digest);
  if (checkBackend(config, modules?.digest) === undefined) await checkPolicyHere(config);
  return tasks;
}
