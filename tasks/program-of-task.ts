/** The program that is a task's agent, if it is one. */

import { type AgentProgram, agentNamed } from '../agents/agent.ts';
import { resolveOptions } from '../modules/options.ts';
import type { ProgramCard } from '../protocol/program.ts';
import type { AgentChoice } from '../protocol/stages.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { hasSandbox, type Task } from './environment.ts';

/**
 * `chosen` replaces the task's own agent. `modules`: digest of the run's modules. `undefined`: the agent is no program.
 * Errors: `UnknownName`; `UserInputError` for invalid options, for a command without a sandbox,
 * and for a gateway without a command.
 */
export function programOfTask(
  task: Pick<Task, 'agent' | 'sandboxes'>,
  chosen: AgentChoice | undefined,
  modules?: string,
): AgentProgram | undefined {
  const { type: name, options } = chosen ?? task.agent ?? {};
  if (name === undefined) return undefined;
  const type = agentNamed(name, modules);
  const program = type.program?.(resolveOptions(type, options, 'agent.options'));
  if (program?.command !== undefined && !hasSandbox(task))
    throw new UserInputError(
      'agent.options.command',
      program.command,
      'leave it out, or give the task a sandbox: the command runs there',
    );
  if (program?.gateway === true && program.command === undefined)
    throw new UserInputError(
      'agent.options.gateway',
      true,
      'give agent.options.command too: the gateway is for a program in the sandbox. ' +
        'One elsewhere reports its tokens (agent.options.tokens)',
    );
  return program;
}

export function cardOfProgram({ command, timeoutSeconds, tokens, gateway }: AgentProgram): ProgramCard {
  const runs = command === undefined ? 'elsewhere' : 'sandbox';
  return { runs, timeoutSeconds, tokens, ...(gateway === true && { gateway }) };
}
