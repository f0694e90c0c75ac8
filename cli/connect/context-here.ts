/** The context that the workers of this folder's stack give a policy, before anything is started for it. */

import { type AskedContext, checkContext, contextIfReadable } from '../../config/policy-context.ts';
import { stackHome, stackPaths } from '../../connection/stack-paths.ts';
import { readStackState } from '../../connection/stack-state.ts';
import { chooseCluster } from '../../stack/choose-cluster.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import type { PolicyContext } from '../../trainer/sampler/cache/cache-budget.ts';
import { gpuDevices } from '../../workers/gpu-devices.ts';

export interface Surroundings {
  /** The workers' environment: a running stack keeps the settings that it was started with. */
  readonly env: NodeJS.ProcessEnv;
  /** True if the workers may be on other machines. */
  readonly ownCluster: boolean;
}

/** `home`: the stack's. */
export function surroundings(shell: NodeJS.ProcessEnv, home: string): Surroundings {
  const state = readStackState(stackPaths(home).state);
  return {
    env: { ...shell, ...state?.settings },
    ownCluster: state === undefined ? chooseCluster(shell).kind === 'existing' : state.ports === undefined,
  };
}

/**
 * `undefined` for a policy that is not here, or cannot be read. The memory of workers on other machines is not known:
 * they refuse what does not fit when the run opens.
 */
export async function contextHere(
  model: string,
  { env, ownCluster }: Surroundings = surroundings(process.env, stackHome()),
): Promise<PolicyContext | undefined> {
  const dir = await resolveModel(model).catch(() => undefined);
  if (dir === undefined) return undefined;
  const context = await contextIfReadable(dir, env, gpuDevices(env).length > 0);
  return context && ownCluster ? { ...context, tokens: context.configured, inMemory: context.configured } : context;
}

/** Errors: `UserInputError` for a context that the policy cannot have; `field` names the policy. */
export async function checkContextHere(asked: AskedContext, model: string, field: string): Promise<void> {
  const context = await contextHere(model);
  if (context) checkContext(asked, context, field);
}
