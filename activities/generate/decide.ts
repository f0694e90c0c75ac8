/** The decision of a rollout's agent after a turn that the policy ended by itself. */

import { type AgentType, agentNamed, defaultAgent, type TurnView } from '../../agents/agent.ts';
import type { CallForm } from '../../agents/hints.ts';
import type { Command } from '../../protocol/command.ts';
import type { ParsedTurn } from '../../protocol/message.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';

/** A rollout's agent, for one turn. */
export interface Deciding extends Pick<TurnView, 'turn' | 'tools' | 'hasStep'> {
  readonly type: AgentType;
  readonly options: unknown;
}

/** The rollout's agent; without one, the task's. Errors: `UnknownName`; `UserInputError` for invalid options. */
export async function decidingOf(
  input: Pick<GenerateInput, 'task' | 'catalog' | 'turn' | 'agent'>,
  tasks: TaskLoader,
): Promise<Deciding> {
  const { task } = await tasks.load(input);
  const { type: name = defaultAgent(task.tools), options = {} } = input.agent ?? task.agent ?? {};
  const type = agentNamed(name);
  const parsed = type.options?.safeParse(options);
  if (parsed?.success === false) {
    const [issue] = parsed.error.issues;
    throw new UserInputError(
      `agent.options.${(issue?.path ?? []).join('.')}`,
      options,
      issue?.message ?? 'see the documentation',
    );
  }
  return { type, options: parsed?.data ?? {}, turn: input.turn, tools: task.tools, hasStep: task.step !== undefined };
}

export function commandOf({ type, options, ...view }: Deciding, parsed: ParsedTurn, form: CallForm): Command {
  return type.decide({ ...view, parsed, form }, options);
}
