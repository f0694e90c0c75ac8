/** One turn of a scripted policy: its messages are known before, so that graders can be checked without a model. */

import type { Message } from '../../protocol/message.ts';
import type { ScriptedPolicy, ScriptName } from '../../protocol/policy.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { type AgentAtWork, agentAtWork, type Decided, decided, tokensAbout, type TurnDeps } from './agent-at-work.ts';
import { replayedTurn } from './replayed-turn.ts';

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
  scripted: ScriptName,
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

/** The turn after the script's last message: the rollout ends there. */
function ended(agent: AgentAtWork): Decided {
  const message = lastWord(agent);
  if (message.role === 'assistant' && message.toolCalls !== undefined) return said(message, agent);
  return { end: 'stop', parsed: { kind: 'no-call', content: '' }, command: { do: 'answer' } };
}

function said(message: Message | undefined, agent: AgentAtWork): Decided {
  if (message === undefined) return ended(agent);
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
  const parsed =
    calls.length > 0
      ? ({ kind: 'calls', content: message.content, calls } as const)
      : ({ kind: 'no-call', content: message.content } as const);
  return decided(agent, { parsed, form: 'server', contextTokens: tokensAbout(agent, message.content) });
}

/** After the script's last message the rollout ends. Errors: `UserInputError` for a task without an oracle. */
export async function sampleScript(
  policy: ScriptedPolicy,
  input: GenerateInput,
  deps: TurnDeps,
  signal: AbortSignal,
): Promise<GenerateRecord> {
  const agent = await agentAtWork(input, deps);
  const base = {
    ...agent.place,
    version: policy.version,
    appended: [],
    reset: false,
    sampled: [],
    logprobs: [],
    untrainable: UNTRAINABLE,
    scripted: policy.scripted,
  };
  if (policy.scripted === 'replay') {
    const turn = await replayedTurn(policy, input, agent, deps.store);
    return { ...base, ...(turn ?? ended(agent)) };
  }
  const script = await scriptOf(policy.scripted, input, deps, signal);
  return { ...base, ...said(script[input.turn - 1], agent) };
}
