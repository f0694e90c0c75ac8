/** The decision of a rollout's agent after a turn that the policy ended by itself. */

import { type AgentType, agentNamed, defaultAgent, type TurnView } from '../../agents/agent.ts';
import { resolveOptions } from '../../modules/options.ts';
import type { Command } from '../../protocol/command.ts';
import type { CodecName } from '../../protocol/conversation.ts';
import type { ParsedTurn } from '../../protocol/message.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { offeredTools } from '../../tasks/offered-tools.ts';
import type { TurnDeps } from './sample-ids.ts';

/** A rollout's agent, for one turn. */
export interface Deciding extends Pick<TurnView, 'turn' | 'tools' | 'hasStep'> {
  readonly type: AgentType;
  readonly options: unknown;
}

/** The rollout's agent; without one, the task's. Errors: `UnknownName`; `UserInputError` for invalid options. */
export async function decidingOf(input: GenerateInput, deps: TurnDeps): Promise<Deciding> {
  const { task, modules } = await deps.tasks.load(input);
  const tools = [...(await offeredTools(input, deps)).keys()];
  const { type: name = defaultAgent(tools), options } = input.agent ?? task.agent ?? {};
  const type = agentNamed(name, modules);
  return {
    type,
    options: resolveOptions(type, options, 'agent.options'),
    turn: input.turn,
    tools,
    hasStep: task.step !== undefined,
  };
}

export function commandOf({ type, options, ...view }: Deciding, parsed: ParsedTurn, form: CodecName): Command {
  return type.decide({ ...view, parsed, form }, options);
}
