/**
 * Opens the engine for a run or an eval, before its first rollout. The first worker that is asked decides the kind of
 * engine; a context that does not fit its memory is refused. What was agreed on holds for as long as the run continues.
 */

import { checkContext, type ContextOf } from '../../config/policy-context.ts';
import type { EngineKinds, EngineRecord, OpenedEngine, OpenEngineInput } from '../../protocol/engine.ts';
import { folderOf } from '../../protocol/policy-uri.ts';
import { keys } from '../../protocol/record-keys.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { Store } from '../../store/store.ts';
import { CACHE_VARIABLE, contextBound } from '../../trainer/sampler/cache/cache-budget.ts';

export interface OpenEngineDeps {
  readonly store: Store;
  /** Absent: policies without a configuration to check, such as those of tests. */
  readonly contextOf?: ContextOf;
  /** Of this worker's engine. Absent: its products depend on nothing. */
  readonly kinds?: EngineKinds;
  /** True if engines of any kind may make a run's products. */
  readonly mixed?: boolean;
}

type Agreed = EngineRecord['contextTokens'];

/**
 * The context of the run's rollouts; `undefined` if each of several policies has its own. Errors: `UserInputError` for
 * one that does not fit here.
 */
async function contextOfRun(
  input: OpenEngineInput,
  agreed: Agreed,
  { contextOf }: OpenEngineDeps,
): Promise<number | undefined> {
  const { run, policies } = input;
  const lengths: number[] = [];
  for (const { field, uri } of policies) {
    // Policies of other backends have their own contexts.
    const dir = folderOf(uri);
    const context = dir === undefined ? undefined : await contextOf?.(dir);
    if (context === undefined) continue;
    if (agreed !== undefined && agreed > context.tokens)
      throw new UserInputError(
        CACHE_VARIABLE,
        process.env[CACHE_VARIABLE] ?? null,
        `${run} began with a context of ${agreed} tokens, and ${field} has ${context.tokens} here: ` +
          `${contextBound(context)}`,
      );
    lengths.push(checkContext(input, context, field));
  }
  return policies.length === 1 || input.maxContextTokens !== undefined ? lengths[0] : undefined;
}

function opened({ contextTokens, kinds, mixed }: EngineRecord): OpenedEngine {
  const ids = Object.entries(kinds).map(([part, { id }]) => [part, id]);
  return {
    ...(contextTokens !== undefined && { contextTokens }),
    kinds: mixed ? {} : (Object.fromEntries(ids) as OpenedEngine['kinds']),
  };
}

/** True if this engine is to make the products: the memory of another one is not known here. */
function isOwn({ kinds: known, mixed }: EngineRecord, { kinds }: OpenEngineDeps): boolean {
  return mixed || known.sampling === undefined || known.sampling.id === kinds?.sampling.id;
}

/** Errors: `UserInputError` for a context that does not fit. */
export async function openEngine(input: OpenEngineInput, deps: OpenEngineDeps): Promise<OpenedEngine> {
  const { run, parts, policies } = input;
  const { store, kinds, mixed = false } = deps;
  const key = keys.engine(run, parts);
  const known = await store.get<EngineRecord>(key);
  if (known && !isOwn(known, deps)) return opened(known);
  const contextTokens = await contextOfRun(input, known?.contextTokens, deps);
  // Other backends make their products elsewhere: any worker asks them.
  const isElsewhere = policies.length > 0 && policies.every(({ uri }) => folderOf(uri) === undefined);
  const own = kinds && !isElsewhere && Object.fromEntries(parts.map((part) => [part, kinds[part]]));
  const record = { run, ...(contextTokens !== undefined && { contextTokens }), kinds: own || {}, mixed };
  return opened(await store.putOnce<EngineRecord>(key, record));
}

/** Ids of the kinds with which runs of this store began, for a worker that serves them all. */
export async function kindsOfRuns(store: Store): Promise<Readonly<Record<'sampling' | 'training', string[]>>> {
  const records = await store.list<EngineRecord>(keys.engines);
  const ids = (part: 'sampling' | 'training') => [
    ...new Set(records.flatMap(({ value: { kinds } }) => kinds[part]?.id ?? [])),
  ];
  return { sampling: ids('sampling'), training: ids('training') };
}
