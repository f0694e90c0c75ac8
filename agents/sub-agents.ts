/** The sub-agents that a task offers by name: what the tool `delegate` can call. */

import { resolveOptions } from '../modules/options.ts';
import type { Message } from '../protocol/message.ts';
import type { AgentChoice } from '../protocol/stages.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { agentNamed } from './agent.ts';
import { DELEGATE } from './tools/delegate.ts';
import { nameOfTool, type Toolbox, type ToolChoice, toolboxOf } from './tools/toolbox.ts';

/** A sub-agent. It reads `messages`, then the prompt of its caller. */
export interface SubAgent {
  /** What it is for, in a sentence: the policy chooses by it. */
  readonly description: string;
  /** Names of tools, or names and options. A tool that the task lists too has the same options. */
  readonly tools: readonly ToolChoice[];
  /** Absent: `tools` if it has tools, else `text`. */
  readonly agent?: AgentChoice;
  readonly messages?: readonly Message[];
}

export type SubAgents = Readonly<Record<string, SubAgent>>;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** A name that a sub-agent may have. */
export const isAgentName = (name: unknown): name is string => typeof name === 'string' && NAME.test(name);

/** Tools of these MCP servers are known only when the servers have started. */
const notOf =
  (servers: readonly string[]) =>
  (choice: ToolChoice): boolean =>
    !servers.some((server) => nameOfTool(choice).startsWith(`${server}__`));

/**
 * All tools that the task and its agents list, by name; not those of `servers`, the task's MCP servers.
 * Errors: `UserInputError` if a tool has other options for an agent than for the task, and those of `toolboxOf`.
 */
export function toolsOfAll(
  own: readonly ToolChoice[],
  agents: SubAgents,
  servers: readonly string[],
  modules?: string,
): Toolbox {
  const choices = new Map(own.map((choice) => [nameOfTool(choice), choice]));
  const optionsOf = (choice: ToolChoice | undefined) =>
    JSON.stringify((typeof choice === 'string' ? undefined : choice?.options) ?? {});
  for (const [agent, { tools }] of Object.entries(agents)) {
    for (const choice of tools.filter(notOf(servers))) {
      const name = nameOfTool(choice);
      if (choices.has(name) && optionsOf(choices.get(name)) !== optionsOf(choice))
        throw new UserInputError(`agents.${agent}.tools`, choice, `give ${name} the same options everywhere`);
      choices.set(name, choice);
    }
  }
  return toolboxOf([...choices.values()], modules);
}

/** Errors: `UserInputError` under `agents` for the first thing that cannot be used. */
export function checkSubAgents(
  agents: SubAgents,
  tools: readonly ToolChoice[],
  servers: readonly string[],
  modules?: string,
): void {
  const names = Object.keys(agents);
  const listed = [...tools, ...Object.values(agents).flatMap((one) => one.tools ?? [])].map(nameOfTool);
  if (names.length === 0 && listed.includes(DELEGATE))
    throw new UserInputError('agents', agents, `describe the agents that ${DELEGATE} may call, or leave the tool out`);
  for (const [name, given] of Object.entries(agents)) {
    const { description, tools: own, messages = [], agent } = given as Partial<SubAgent>;
    const refused = (member: string, value: unknown, remedy: string) =>
      new UserInputError(`agents.${name}${member}`, value, remedy);
    if (!isAgentName(name)) throw refused('', name, 'give a name of letters, digits, dot, dash and underscore');
    if (typeof description !== 'string' || description.trim() === '')
      throw refused('.description', description, 'say in a sentence what the agent is for');
    if (!Array.isArray(own)) throw refused('.tools', own, 'give a list of tools, which may be empty');
    if (!Array.isArray(messages)) throw refused('.messages', messages, 'give a list of messages');
    toolboxOf(own.filter(notOf(servers)), modules);
    if (agent === undefined) continue;
    const type = agentNamed(agent.type, modules);
    if (type.program !== undefined)
      throw refused('.agent.type', agent.type, 'give a type that decides: a program cannot be a sub-agent');
    resolveOptions(type, agent.options, `agents.${name}.agent.options`);
  }
}
