/** One turn of a scripted policy: its messages are known before, so that graders can be checked without a model. */

import type { Message } from '../../protocol/message.ts';
import type { ScriptedPolicy } from '../../protocol/policy.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { type AgentAtWork, agentAtWork, decided, tokensAbout, type TurnDeps } from './agent-at-work.ts';

const UNTRAINABLE = 'the policy is a script, which samples no tokens';

/** What ends a rollout at once, without an answer. */
function lastWord({ type, tools }: AgentAtWork): Message {
  const finishes = type.reads === 'calls' && tools.has('finish');
  return finishes
    ? { role: 'assistant', content: '', toolCalls: [{ name: 'finish', arguments: {} }] }
    : { role: 'assistant', content: '' };
}

/** The messages of the policy in order; those of the user and of tools are left out. */
async function scriptOf(
  { scripted }: ScriptedPolicy,
  input: GenerateInput,
  { tasks }: TurnDeps,
  signal: AbortSignal,
): Promise<readonly Message[]> {
  if (scripted === 'empty') return [];
  const { task } = await tasks.load(input);
  if (task.oracle === undefined)
    throw new UserInputError('policy', 'oracle', `give another policy: task ${input.task} has no function oracle`);
  const messages = await task.oracle({ key: input.task, signal });
  return messages.filter(({ role }) => role === 'assistant');
}

/** After the script's last message the rollout ends. Errors: `UserInputError` for a task without an oracle. */
export async function sampleScript(
  policy: ScriptedPolicy,
  input: GenerateInput,
  deps: TurnDeps,
  signal: AbortSignal,
): Promise<GenerateRecord> {
  const agent = await agentAtWork(input, deps);
  const script = await scriptOf(policy, input, deps, signal);
  const message = script[input.turn - 1] ?? lastWord(agent);
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
  const parsed =
    calls.length > 0
      ? ({ kind: 'calls', content: message.content, calls } as const)
      : ({ kind: 'no-call', content: message.content } as const);
  const isOver = input.turn > script.length && calls.length === 0;
  return {
    ...agent.place,
    version: policy.version,
    appended: [],
    reset: false,
    sampled: [],
    logprobs: [],
    ...(isOver
      ? { end: 'stop', parsed, command: { do: 'answer' } }
      : decided(agent, { parsed, form: 'server', contextTokens: tokensAbout(agent, message.content) })),
    untrainable: UNTRAINABLE,
    scripted: policy.scripted,
  };
}
