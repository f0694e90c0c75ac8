/**
 * The first prompts of a plan, against the contexts of its policies: a dry run finds early what rollouts would be
 * masked for. It opens no dataset a second time and calls nothing of a task: prompts that a `start` or an MCP server
 * makes are left to `longhaul check`.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promptTokens } from '../../activities/generate/sample-ids.ts';
import type { Bundle } from '../../modules/bundle.ts';
import type { ModulesRecord } from '../../modules/import-bundle.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { AgentSettings } from '../../protocol/rollout.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { taskKey, type TaskPool, type TaskSource } from '../../protocol/task-key.ts';
import { putCatalog } from '../../store/read-records.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import type { VerbContext } from '../verb.ts';
import { type CheckedPrompts, PromptCheck, promptLines, type ReadBy } from './check-prompts.ts';
import { firstInput } from './roll-out-here.ts';

/** Tasks of each pool. */
const COUNTED = 3;

/** The tasks of a plan, as they were checked. */
export interface PlannedTasks {
  readonly pools: ReadonlyArray<TaskPool & { readonly from?: number }>;
  /** Of an eval that names its tasks. */
  readonly ids: readonly string[];
  /** Absent: the tasks' keys start with names of environments. */
  readonly sources: Readonly<Record<string, TaskSource>> | undefined;
}

function keysOf({ pools, ids }: PlannedTasks): readonly string[] {
  return [
    ...ids.slice(0, COUNTED),
    ...pools.flatMap(({ source, split, from = 0, count }) =>
      Array.from({ length: Math.min(COUNTED, count) }, (_, i) => taskKey(source, split, from + i)),
    ),
  ];
}

export class FirstPrompts {
  /** Opens the plan's datasets, and keeps them for `count`. */
  readonly tasks: TaskLoader;
  readonly #store: Store;
  readonly #dir: string;

  private constructor(store: Store, dir: string) {
    this.#store = store;
    this.#dir = dir;
    this.tasks = new TaskLoader(store);
  }

  /** `close` removes what it makes. */
  static async open(): Promise<FirstPrompts> {
    const dir = await mkdtemp(join(tmpdir(), 'longhaul-plan-'));
    return new FirstPrompts(openSqliteStore(join(dir, 'store')), dir);
  }

  /** `undefined` if no policy is here that reads prompts. Errors: `UserInputError`. */
  async count(
    read: ReadBy,
    planned: PlannedTasks,
    agent: AgentSettings,
    bundle: Bundle | undefined,
  ): Promise<CheckedPrompts | undefined> {
    const prompts = await PromptCheck.open(read, bundle?.digest);
    if (prompts === undefined) return undefined;
    const deps = { store: this.#store, tasks: this.tasks };
    const ref = await this.#refOf(planned, bundle);
    for (const key of keysOf(planned)) {
      if (await this.#asksOthers(key, ref)) continue;
      const input = firstInput({ run: 'plan', rollout: `plan/${key}`, attempt: 1, task: key, ...ref }, agent);
      await prompts.count(key, (tokenizer) => promptTokens(input, tokenizer, deps));
    }
    return prompts.found;
  }

  /** False for a task that does not load: counting it says why. */
  async #asksOthers(key: string, ref: { readonly catalog?: ObjectRef }): Promise<boolean> {
    return this.tasks.load({ task: key, ...ref }).then(
      ({ task }) => task.start !== undefined || task.mcp !== undefined,
      () => false,
    );
  }

  async #refOf({ sources }: PlannedTasks, bundle: Bundle | undefined): Promise<{ readonly catalog?: ObjectRef }> {
    if (sources === undefined) return {};
    if (bundle !== undefined) {
      const { digest, code, paths } = bundle;
      await this.#store.putObject(code);
      await this.#store.putOnce<ModulesRecord>(keys.modules(digest), { digest, paths, at: new Date().toISOString() });
    }
    return { catalog: await putCatalog({ sources, ...(bundle && { modules: bundle.digest }) }, this.#store) };
  }

  async close(): Promise<void> {
    await this.#store.close();
    await rm(this.#dir, { recursive: true, force: true });
  }
}

/** Says what was counted, with what counts more of it; of prompts that are too long also beside `--json`. */
export function sayPrompts(
  found: CheckedPrompts | undefined,
  file: string,
  { json, say, note }: Pick<VerbContext, 'json' | 'say' | 'note'>,
): 0 | 2 {
  if (found === undefined) return 0;
  const isTooLong = found.tooLong.length > 0;
  const [first = 'prompts: none counted', ...rest] = promptLines(found);
  const more = `npx longhaul check ${file} counts more, and those that a start or a server makes`;
  for (const line of [`${first}; ${more}`, ...rest]) (json && isTooLong ? note : say)(line);
  return isTooLong ? 2 : 0;
}
