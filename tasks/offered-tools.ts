/** The tools that an agent of an attempt may call. */

import { mcpTools } from '../agents/mcp/tools.ts';
import { DELEGATE, delegateTo } from '../agents/tools/delegate.ts';
import type { Toolbox } from '../agents/tools/toolbox.ts';
import { callingTurn, type Place } from '../protocol/frames.ts';
import type { GenerateRecord, McpRecord } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import type { Attempt } from '../protocol/stages.ts';
import { mcpSessions } from '../store/mcp-sessions.ts';
import type { Store } from '../store/store.ts';
import type { SubAgents } from '../agents/sub-agents.ts';
import type { TaskLoader, TaskRef } from './task-loader.ts';

type Ref = TaskRef & Pick<Attempt, 'run' | 'rollout' | 'attempt'>;
interface Deps {
  readonly store: Pick<Store, 'get' | 'putOnce' | 'list'>;
  readonly tasks: TaskLoader;
}

async function servedTools(attempt: Ref, { store, tasks }: Deps): Promise<Toolbox> {
  const { task } = await tasks.load(attempt);
  if (task.mcp === undefined) return new Map();
  const key = keys.mcp(attempt);
  const record = await store.get<McpRecord>(key);
  if (record === undefined) throw new Error(`${key} is not recorded`);
  const tools = mcpTools(task.mcp, record, (server) => mcpSessions(attempt, server, store));
  return new Map(tools.map((tool) => [tool.schema.function.name, tool]));
}

/** The tool `delegate` names the task's agents. */
function withAgents(tools: Toolbox, agents: SubAgents): Toolbox {
  if (!tools.has(DELEGATE)) return tools;
  const descriptions = Object.fromEntries(Object.entries(agents).map(([name, { description }]) => [name, description]));
  return new Map([...tools, [DELEGATE, delegateTo(descriptions)]]);
}

/** Every tool of the task, its agents and its servers. Errors: those of `TaskLoader.load`. */
export async function allTools(attempt: Ref, deps: Deps): Promise<Toolbox> {
  const { task, everyTool } = await deps.tasks.load(attempt);
  return withAgents(new Map([...everyTool, ...(await servedTools(attempt, deps))]), task.agents ?? {});
}

/**
 * The tools of the agent at `place`: those that the task lists, then those of its servers; of a sub-agent, those that
 * its caller gave it. Errors: those of `TaskLoader.load`.
 */
export async function offeredTools(attempt: Ref, { agentPath = [] }: Place, deps: Deps): Promise<Toolbox> {
  const name = agentPath.at(-1);
  const { task, toolbox } = await deps.tasks.load(attempt);
  if (name === undefined)
    return withAgents(new Map([...toolbox, ...(await servedTools(attempt, deps))]), task.agents ?? {});
  const key = keys.generate(attempt, callingTurn(name));
  const command = (await deps.store.get<GenerateRecord>(key))?.command;
  if (command?.do !== 'delegate') throw new Error(`${key} calls no agent, and ${name} works`);
  const all = await allTools(attempt, deps);
  return new Map(
    command.tools.flatMap((tool) => {
      const found = all.get(tool);
      return found === undefined ? [] : [[tool, found] as const];
    }),
  );
}
