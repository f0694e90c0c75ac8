/**
 * Checks what an agent has decided, before it is recorded: a wrong command would fail later, without a name to blame.
 */

import { z } from 'zod';
import { resolveOptions } from '../modules/options.ts';
import type { Command, Delegate } from '../protocol/command.ts';
import { type AgentType, agentNamed, type TurnView } from './agent.ts';
import { isAgentName } from './sub-agents.ts';
import { DELEGATE } from './tools/delegate.ts';

/** A type of agent whose `decide` threw, or decided what cannot be done. */
export class AgentFailed extends Error {
  override readonly name = 'AgentFailed';
}

const text = z.string().min(1);
const message = z.union([
  z.strictObject({ role: z.enum(['system', 'user']), content: z.string() }),
  z.strictObject({ role: z.literal('assistant'), content: z.string() }),
]);
const commands = z.discriminatedUnion('do', [
  z.strictObject({ do: z.literal('act'), message: text.optional() }),
  z.strictObject({ do: z.literal('finish') }),
  z.strictObject({ do: z.literal('reply'), message: text }),
  z.strictObject({ do: z.literal('step'), message: text.optional() }),
  z.strictObject({ do: z.literal('answer') }),
  z.strictObject({ do: z.literal('summarise'), summary: z.string() }),
  z.strictObject({
    do: z.literal('delegate'),
    name: text,
    agent: z.strictObject({ type: text, options: z.record(z.string(), z.unknown()).optional() }),
    tools: z.array(text),
    messages: z.array(message).min(1),
    call: z.int().min(0).optional(),
  }),
]);

/** What a command is checked against. */
export interface Possible {
  readonly type: AgentType;
  readonly view: Pick<TurnView, 'parsed' | 'hasStep' | 'depthLeft'>;
  /** Names of the tools that a sub-agent may have. */
  readonly allTools: readonly string[];
  /** Digest of the run's modules. */
  readonly modules?: string | undefined;
}

function wrongDelegate(
  { name, agent, tools, call }: Delegate,
  { view, allTools, modules }: Possible,
): string | undefined {
  const { parsed, depthLeft } = view;
  if (!isAgentName(name)) return `name ${JSON.stringify(name)}: give letters, digits, dot, dash and underscore`;
  if (depthLeft < 1) return 'no sub-agent may work below this one (agent.maxDepth; see depthLeft)';
  const unknown = tools.find((tool) => !allTools.includes(tool));
  if (unknown !== undefined)
    return (
      `tools has ${JSON.stringify(unknown)}: give tools that the task or one of its agents lists ` +
      `(${allTools.join(', ')})`
    );
  if (call !== undefined && (parsed.kind !== 'calls' || call >= parsed.calls.length))
    return `call ${call}: the turn has ${parsed.kind === 'calls' ? parsed.calls.length : 'no'} calls`;
  try {
    const type = agentNamed(agent.type, modules);
    if (type.program !== undefined) return `agent.type ${JSON.stringify(agent.type)}: a program cannot be a sub-agent`;
    resolveOptions(type, agent.options, 'agent.options');
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function wrongIn(command: Command, possible: Possible): string | undefined {
  const { parsed, hasStep } = possible.view;
  if (command.do === 'act' && parsed.kind !== 'calls') return 'do act: the turn has no calls to run';
  if (command.do === 'step' && !hasStep)
    return (
      'do step: nothing answers messages here: the task has no step, or this is a sub-agent without the option ' +
      'message: step, whose message is its answer to its caller. Return { do: "answer" } where hasStep is false'
    );
  return command.do === 'delegate' ? wrongDelegate(command, possible) : undefined;
}

/** The command as it is recorded. Errors: `AgentFailed`, with the agent's name and the wrong field. */
export function checkedCommand(given: unknown, possible: Possible): Command {
  const failed = (what: string) =>
    new AgentFailed(
      `the agent ${possible.type.name}: decide returned ${JSON.stringify(given)?.slice(0, 200) ?? 'nothing'}: ${what}`,
    );
  const parsed = commands.safeParse(given);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw failed(`${(issue?.path ?? []).join('.') || 'command'}: ${issue?.message ?? 'see the documentation'}`);
  }
  const command = parsed.data as Command;
  const wrong = wrongIn(command, possible);
  if (wrong !== undefined) throw failed(wrong);
  if (command.do !== 'delegate' || possible.view.depthLeft > 1) return command;
  // The deepest agents are not shown what they cannot use.
  return { ...command, tools: command.tools.filter((tool) => tool !== DELEGATE) };
}
