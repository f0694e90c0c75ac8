/**
 * Counts prompts in the tokens of the policies that would read them, against their contexts. What a task's `start` says
 * or its MCP servers is known only after `prepare`: tasks without sandboxes are prepared for it, those with sandboxes
 * where they are rolled out.
 */

import type { PolicyTokenizer } from '../../activities/generate/sample-ids.ts';
import { askedContext, checkContext } from '../../config/policy-context.ts';
import { parsePolicyReference } from '../../config/policy-reference.ts';
import { messageWithPlace } from '../../modules/own-frame.ts';
import type { SweepConfig } from '../../protocol/eval.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { taskKey } from '../../protocol/task-key.ts';
import { hasSandbox } from '../../tasks/environment.ts';
import { backendOfUri } from '../../trainer/backends/registry.ts';
import { resolveModel } from '../../trainer/hub/resolve-model.ts';
import { contextBound } from '../../trainer/sampler/cache/cache-budget.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { contextHere } from '../connect/context-here.ts';
import { starter } from '../eval/check-inputs.ts';
import { type CheckedSource, spread } from './check-tasks.ts';
import type { CountPrompt, Here } from './roll-out-here.ts';

/** A policy of this machine, with the context that its rollouts have. */
interface Reader {
  readonly policy: string;
  readonly tokenizer: PolicyTokenizer;
  readonly limit: number;
  /** What raises the limit. */
  readonly bound: string;
}

export interface LongPrompt {
  readonly task: string;
  readonly policy: string;
  readonly tokens: number;
  readonly limit: number;
  /** With its remedy. */
  readonly message: string;
}

export interface CheckedPrompts {
  /** Tasks whose prompt was counted. */
  readonly counted: number;
  readonly longest: Pick<LongPrompt, 'task' | 'policy' | 'tokens' | 'limit'> | null;
  readonly tooLong: readonly LongPrompt[];
  /** Tasks whose prompt could not be counted, with the first reason. */
  readonly uncounted: { readonly tasks: number; readonly message: string } | null;
}

/** Tasks of each split whose `start` and MCP servers are called for this. */
const STARTED = 20;

/** Whose policies read the prompts. */
export type ReadBy =
  | { readonly kind: 'run'; readonly config: RunConfig }
  | { readonly kind: 'eval'; readonly config: SweepConfig };

/** The names of policies, and their models, of those that may be here. */
function modelsOf(read: ReadBy): ReadonlyArray<readonly [name: string, model: string]> {
  if (read.kind === 'run') return [['policy.base', read.config.policy.base]];
  return read.config.policies.flatMap((policy) => {
    if ('endpoint' in policy) return [];
    const reference = parsePolicyReference(policy.policy);
    if (reference.kind === 'starter') return [[`policies.${policy.name}`, starter] as const];
    return reference.kind === 'model' ? [[`policies.${policy.name}`, reference.model] as const] : [];
  });
}

/** Policies of other machines, servers and backends count for themselves. Errors: `UserInputError`. */
async function readersOf(read: ReadBy, modules: string | undefined): Promise<Reader[]> {
  const asked = askedContext(read.config);
  const readers: Reader[] = [];
  for (const [policy, model] of modelsOf(read)) {
    if (backendOfUri(model, modules, policy) !== undefined) continue;
    const context = await contextHere(model);
    const tokenizer = await resolveModel(model)
      .then(loadTokenizer)
      .catch(() => undefined);
    if (context === undefined || tokenizer === undefined) continue;
    const { policyContextTokens, maxContextTokens } = asked;
    const bound =
      maxContextTokens === undefined
        ? policyContextTokens === undefined
          ? contextBound(context)
          : `policy.maxContextTokens is ${policyContextTokens}`
        : `agent.maxContextTokens is ${maxContextTokens}`;
    readers.push({ policy, tokenizer, limit: checkContext(asked, context, policy), bound });
  }
  return readers;
}

export class PromptCheck {
  readonly #readers: readonly Reader[];
  readonly #seen = new Set<string>();
  #counted = 0;
  readonly #tooLong: LongPrompt[] = [];
  #longest: CheckedPrompts['longest'] = null;
  #uncounted: CheckedPrompts['uncounted'] = null;

  private constructor(readers: readonly Reader[]) {
    this.#readers = readers;
  }

  /** `modules`: their digest. `undefined` if no policy is here that reads prompts. Errors: `UserInputError`. */
  static async open(read: ReadBy, modules: string | undefined): Promise<PromptCheck | undefined> {
    const readers = await readersOf(read, modules);
    return readers.length === 0 ? undefined : new PromptCheck(readers);
  }

  /** Counts the prompt of a task, once. A prompt that cannot be counted is no fault of who asks. */
  async count(task: string, count: CountPrompt): Promise<void> {
    if (this.#seen.has(task)) return;
    this.#seen.add(task);
    try {
      await this.#countFor(task, count);
      this.#counted += 1;
    } catch (error) {
      const { tasks, message } = this.#uncounted ?? { tasks: 0, message: `${task}: ${messageWithPlace(error)}` };
      this.#uncounted = { tasks: tasks + 1, message };
    }
  }

  async #countFor(task: string, count: CountPrompt): Promise<void> {
    for (const { policy, tokenizer, limit, bound } of this.#readers) {
      const tokens = await count(tokenizer);
      const found = { task, policy, tokens, limit };
      if (tokens - limit > (this.#longest === null ? -Infinity : this.#longest.tokens - this.#longest.limit))
        this.#longest = found;
      if (tokens < limit) continue;
      const message =
        `the prompt has ${tokens} tokens, and the context of ${policy} ${limit}: there is no room for an answer. ` +
        `Shorten its messages, leave the task out, or raise the context (${bound})`;
      this.#tooLong.push({ ...found, message });
    }
  }

  /** Of the loaded tasks. Of those with a `start` or MCP servers some, without sandboxes. Errors: the signal's. */
  async countLoaded(
    sources: readonly CheckedSource[],
    ids: readonly string[],
    here: Here,
    signal: AbortSignal,
  ): Promise<void> {
    const splits = sources.flatMap(({ source, splits: all }) =>
      all.map(({ split, loaded }) => loaded.map((index) => taskKey(source, split, index))),
    );
    for (const keys of ids.length > 0 ? [ids] : splits) {
      const started = new Set(spread(0, keys.length, STARTED).map((i) => keys[i]));
      for (const key of keys) {
        signal.throwIfAborted();
        const task = await here.load(key);
        const asksOthers = task.start !== undefined || task.mcp !== undefined;
        if (asksOthers && (hasSandbox(task) || !started.has(key))) continue;
        await this.#countHere(key, here, signal);
      }
    }
  }

  async #countHere(key: string, here: Here, signal: AbortSignal): Promise<void> {
    try {
      await here.prompt(key, (count) => this.count(key, count), signal);
    } catch (error) {
      signal.throwIfAborted();
      const { tasks, message } = this.#uncounted ?? { tasks: 0, message: `${key}: ${messageWithPlace(error)}` };
      this.#uncounted = { tasks: tasks + 1, message };
    }
  }

  get found(): CheckedPrompts {
    const uncounted = this.#uncounted;
    const counted = this.#counted;
    return { counted, longest: this.#longest, tooLong: this.#tooLong, uncounted };
  }
}

/** Prompts that are shown one by one. */
const SHOWN = 10;

/** Empty if there was none to count. */
export function promptLines({ counted, longest, tooLong, uncounted }: CheckedPrompts): string[] {
  if (counted === 0 && uncounted === null) return [];
  const most =
    longest === null ? '' : `, the longest has ${longest.tokens} of ${longest.limit} tokens (${longest.task})`;
  return [
    `prompts: ${counted} counted${most}${tooLong.length === 0 ? '' : `; ${tooLong.length} too long`}`,
    ...tooLong.slice(0, SHOWN).map(({ task, message }) => `  ${task}: ${message}`),
    ...(tooLong.length > SHOWN ? [`  and ${tooLong.length - SHOWN} more`] : []),
    ...(uncounted === null ? [] : [`  ${uncounted.tasks} not counted, the first is ${uncounted.message}`]),
  ];
}
