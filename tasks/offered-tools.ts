/** The tools that an attempt's policy may call: those that its task lists, then those of its task's servers. */

import { mcpTools } from '../agents/mcp/tools.ts';
import type { Toolbox } from '../agents/tools/toolbox.ts';
import { keys, type McpRecord } from '../protocol/records.ts';
import type { Attempt } from '../protocol/stages.ts';
import type { Store } from '../store/store.ts';
import type { TaskLoader, TaskRef } from './task-loader.ts';

/** Errors: those of `TaskLoader.load`. */
export async function offeredTools(
  attempt: TaskRef & Pick<Attempt, 'rollout' | 'attempt'>,
  { store, tasks }: { readonly store: Pick<Store, 'get'>; readonly tasks: TaskLoader },
): Promise<Toolbox> {
  const { task, toolbox } = await tasks.load(attempt);
  if (task.mcp === undefined) return toolbox;
  const key = keys.mcp(attempt);
  const record = await store.get<McpRecord>(key);
  if (record === undefined) throw new Error(`${key} is not recorded`);
  const served = mcpTools(task.mcp, record).map((tool) => [tool.schema.function.name, tool] as const);
  return new Map([...toolbox, ...served]);
}
