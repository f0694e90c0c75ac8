/**
 * Opens the engine for a run or an eval, before its first rollout: a context that does not fit this worker's memory is
 * refused, and what was agreed on once holds for as long as the run goes on.
 */

import { checkContext, type ContextOf } from '../../config/policy-context.ts';
import type { OpenedEngine, OpenEngineInput } from '../../protocol/engine.ts';
import { folderOf } from '../../protocol/policy-uri.ts';
import { keys } from '../../protocol/records.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { Store } from '../../store/store.ts';
import { contextBound, CACHE_VARIABLE } from '../../trainer/sampler/cache/cache-budget.ts';

export interface OpenEngineDeps {
  readonly store: Store;
  /** Absent: policies without a configuration to check, such as those of tests. */
  readonly contextOf?: ContextOf;
}

/** Errors: `UserInputError` for a context that does not fit. */
export async function openEngine(input: OpenEngineInput, deps: OpenEngineDeps): Promise<OpenedEngine> {
  const { run, policies } = input;
  const { store } = deps;
  const key = keys.engine(run);
  const known = await store.get<OpenedEngine>(key);
  const agreed = known?.contextTokens;
  const lengths: number[] = [];
  for (const { field, uri } of policies) {
    // Policies of other backends have their own contexts.
    const dir = folderOf(uri);
    const context = dir === undefined ? undefined : await deps.contextOf?.(dir);
    if (context === undefined) continue;
    if (agreed !== undefined && agreed > context.tokens)
      throw new UserInputError(
        CACHE_VARIABLE,
        process.env[CACHE_VARIABLE] ?? null,
        `${run} began with a context of ${agreed} tokens, and ${field} has ${context.tokens} here: ${contextBound(context)}`,
      );
    lengths.push(checkContext(input, context, field));
  }
  const [first] = lengths;
  const isOne = first !== undefined && (policies.length === 1 || input.maxContextTokens !== undefined);
  return store.putOnce<OpenedEngine>(key, isOne ? { contextTokens: first } : {});
}
