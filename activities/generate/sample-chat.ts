/**
 * One turn by chat: the transcript is built from the records and sent in OpenAI's form, and the answer is recorded
 * unchanged.
 */

import { schemasOf } from '../../agents/tools/toolbox.ts';
import { type AgentAtWork, agentAtWork, decided, type TurnDeps } from './agent-at-work.ts';
import { chatAnswerMessages, type ChatCall, chatTurnMessage, parseChatTurn } from '../../endpoints/chat.ts';
import type { ChatAnswer } from '../../protocol/endpoint.ts';
import type { ParsedTurn } from '../../protocol/message.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { contextTokensAfter } from '../../protocol/transcript.ts';

const UNTRAINABLE = 'the endpoint was asked in chat, which gives no token ids';

/** What the agent read first, and its turns so far. */
function transcriptOf({ opening, earlier }: AgentAtWork): ChatCall['messages'] {
  const given = opening.map(({ role, content }) => ({ role, content }));
  const said = earlier.flatMap(({ record, told }) => {
    if (!record.chat) return [];
    const { turn } = record.chat;
    return [chatTurnMessage(turn, record.parsed.kind === 'calls'), ...chatAnswerMessages(turn, told)];
  });
  return [...given, ...said];
}

function readAnswer(
  { turn, finish, usage }: ChatAnswer,
  agent: AgentAtWork,
): Pick<GenerateRecord, 'parsed' | 'command' | 'chat' | 'end'> {
  const chat = { turn, usage };
  const contextTokens = usage ? usage.promptTokens + usage.completionTokens : 0;
  const read = (parsed: ParsedTurn) => ({ chat, ...decided(agent, { parsed, form: 'chat', contextTokens }) });
  if (finish === 'unreadable')
    return read({ kind: 'malformed', content: '', error: 'The server itself did not understand it.' });
  const end = finish === 'filtered' ? 'refused' : finish;
  const content = turn.content || (turn.refusal ?? '');
  if (end !== 'stop') return { chat, end, parsed: { kind: 'no-call', content } };
  return read(agent.type.reads === 'text' ? { kind: 'no-call', content } : parseChatTurn(turn));
}

/**
 * Samples the turn by `ask`, unless the context has no room for it. `ask` returns `null` if the server found no room.
 */
export async function sampleChat(
  input: GenerateInput,
  deps: TurnDeps,
  ask: (call: ChatCall) => Promise<ChatAnswer | null>,
): Promise<GenerateRecord> {
  const { sampling, maxContextTokens, policy } = input;
  if (sampling.topK > 0) {
    throw new UserInputError(
      'sampling.topK',
      sampling.topK,
      "give 0: the chat API has no such setting (if the server takes it, set it in the endpoint's extraBody)",
    );
  }
  const agent = await agentAtWork(input, deps);
  const room = maxContextTokens - contextTokensAfter(agent.earlier.map(({ record }) => record));
  const base = {
    ...agent.place,
    version: policy.version,
    appended: [],
    reset: false,
    sampled: [],
    logprobs: [],
    untrainable: UNTRAINABLE,
  };
  const full: GenerateRecord = { ...base, end: 'context-full', parsed: { kind: 'no-call', content: '' } };
  if (room <= 0) return full;
  const call: ChatCall = {
    messages: transcriptOf(agent),
    tools: schemasOf(agent.tools),
    sampling: { ...sampling, maxTokens: Math.min(sampling.maxTokens, room) },
  };
  const answer = await ask(call);
  if (!answer) return full;
  const read = readAnswer(answer, agent);
  return { ...base, ...read, end: read.end === 'length' && room <= sampling.maxTokens ? 'context-full' : read.end };
}
