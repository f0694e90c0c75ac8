/** Refuses a context that a policy cannot have, before anything starts: with the numbers, and with what raises it. */

import { UserInputError } from '../protocol/user-input-error.ts';
import { UnsupportedAdapter } from '../trainer/lora/adapter-config.ts';
import { UnsupportedModel } from '../trainer/model/config.ts';
import { readModelConfig } from '../trainer/model/describe-policy.ts';
import {
  BadCacheBudget,
  CACHE_VARIABLE,
  cacheBudget,
  contextBound,
  contextWithin,
  GRAPH_LAYOUT,
  NATIVE_LAYOUT,
  type PolicyContext,
} from '../trainer/sampler/cache/cache-budget.ts';

/** The context that an engine in this environment gives the policy in a directory. */
export type ContextOf = (dir: string) => Promise<PolicyContext>;

/**
 * `isGpu`: the engine is on a GPU. Errors: `UserInputError` for the cache's memory; those of reading the model's
 * configuration.
 */
export async function contextOf(dir: string, env: NodeJS.ProcessEnv, isGpu: boolean): Promise<PolicyContext> {
  const config = await readModelConfig(dir);
  try {
    return contextWithin(cacheBudget(env, isGpu), config, isGpu ? GRAPH_LAYOUT : NATIVE_LAYOUT);
  } catch (error) {
    if (!(error instanceof BadCacheBudget)) throw error;
    throw new UserInputError(CACHE_VARIABLE, env[CACHE_VARIABLE] ?? null, error.message, { cause: error });
  }
}

/** `undefined` for a model that cannot be read: it is refused elsewhere, by its own field. */
export async function contextIfReadable(...of: Parameters<typeof contextOf>): Promise<PolicyContext | undefined> {
  return contextOf(...of).catch((error: unknown) => {
    const isRefused = [UnsupportedModel, UnsupportedAdapter, SyntaxError].some((kind) => error instanceof kind);
    if (isRefused || (error as NodeJS.ErrnoException).code !== undefined) return undefined;
    throw error;
  });
}

/** The settings that bound a context; absent ones take the policy's. */
export interface AskedContext {
  readonly policyContextTokens?: number | undefined;
  readonly maxContextTokens?: number | undefined;
}

/**
 * The context of rollouts of this policy. Errors: `UserInputError` for a setting above what its configuration or the
 * engine's memory allow.
 */
export function checkContext(asked: AskedContext, context: PolicyContext, policy: string): number {
  const { policyContextTokens, maxContextTokens } = asked;
  const refuse = (field: string, value: number, most: number, why: string): never => {
    throw new UserInputError(field, value, `give at most ${most} for ${policy} (${why})`);
  };
  if (policyContextTokens !== undefined && policyContextTokens > context.tokens)
    refuse('policy.maxContextTokens', policyContextTokens, context.tokens, contextBound(context));
  const most = policyContextTokens ?? context.tokens;
  if (maxContextTokens === undefined) return most;
  const why = policyContextTokens === undefined ? contextBound(context) : 'policy.maxContextTokens';
  if (maxContextTokens > most) refuse('agent.maxContextTokens', maxContextTokens, most, why);
  return maxContextTokens;
}

/** What a configuration asks of its policy's context. */
export const askedContext = ({
  policy,
  agent,
}: {
  readonly policy?: { readonly maxContextTokens?: number };
  readonly agent: { readonly maxContextTokens?: number };
}): AskedContext => ({ policyContextTokens: policy?.maxContextTokens, maxContextTokens: agent.maxContextTokens });
