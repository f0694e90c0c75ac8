/**
 * One turn by chat: the transcript is built from the records and sent in OpenAI's form, and the answer is recorded
 * unchanged.
 */

import { schemasOf } from '../../agents/tools/toolbox.ts';
import { offeredTools } from '../../tasks/offered-tools.ts';
import { openingMessages } from '../../tasks/opening-messages.ts';
import { commandOf, type Deciding, decidingOf } from './decide.ts';
import { chatAnswerMessages, type ChatCall, chatTurnMessage, parseChatTurn } from '../../endpoints/chat.ts';
import type { ChatAnswer } from '../../protocol/endpoint.ts';
import type { ParsedTurn } from '../../protocol/message.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { answerTo, contextTokensAfter, type GenerateRecord } from '../../protocol/records.ts';
import { actsOf, turnsOf } from '../../store/read-records.ts';
import type { TurnDeps } from './sample-ids.ts';

const UNTRAINABLE = 'the endpoint was asked in chat, which gives no token ids';

/** The messages of a task, and of the turns so far. */
async function transcriptOf(
  input: GenerateInput,
  earlier: readonly GenerateRecord[],
  { store, tasks }: TurnDeps,
): Promise<ChatCall['messages']> {
  const acts = await actsOf(store, input);
  const messages = await openingMessages(input, { store, tasks });
  const given = messages.map(({ role, content }) => ({ role, content }));
  const said = earlier.flatMap((turn, i) => {
    if (!turn.chat) return [];
    const answers = chatAnswerMessages(turn.chat.turn, answerTo(turn, acts.get(i + 1)));
    return [chatTurnMessage(turn.chat.turn, turn.parsed.kind === 'calls'), ...answers];
  });
  return [...given, ...said];
}

function readAnswer(
  { turn, finish, usage }: ChatAnswer,
  agent: Deciding,
): Pick<GenerateRecord, 'parsed' | 'command' | 'chat' | 'end'> {
  const chat = { turn, usage };
  if (finish === 'unreadable') {
    const error = 'The server itself did not understand it.';
    const parsed = { kind: 'malformed', content: '', error } as const;
    return { chat, end: 'stop', parsed, command: commandOf(agent, parsed, 'chat') };
  }
  const end = finish === 'filtered' ? 'refused' : finish;
  if (end !== 'stop') return { chat, end, parsed: { kind: 'no-call', content: turn.content || (turn.refusal ?? '') } };
  const parsed: ParsedTurn =
    agent.type.reads === 'text'
      ? { kind: 'no-call', content: turn.content || (turn.refusal ?? '') }
      : parseChatTurn(turn);
  return { chat, end, parsed, command: commandOf(agent, parsed, 'chat') };
}

/**
 * Samples the turn by `ask`, unless the context has no room for it. `ask` returns `null` if the server found no room.
 */
export async function sampleChat(
  input: GenerateInput,
  deps: TurnDeps,
  ask: (call: ChatCall) => Promise<ChatAnswer | null>,
): Promise<GenerateRecord> {
  const { sampling, maxContextTokens = Number.POSITIVE_INFINITY, turn, policy } = input;
  if (sampling.topK > 0) {
    throw new UserInputError(
      'sampling.topK',
      sampling.topK,
      "give 0: the chat API has no such setting (if the server takes it, set it in the endpoint's extraBody)",
    );
  }
  const earlier = (await turnsOf(deps.store, input)).slice(0, turn - 1);
  const room = maxContextTokens - contextTokensAfter(earlier);
  const base = {
    version: policy.version,
    appended: [],
    reset: false,
    sampled: [],
    logprobs: [],
    untrainable: UNTRAINABLE,
  };
  const full: GenerateRecord = { ...base, end: 'context', parsed: { kind: 'no-call', content: '' } };
  if (room <= 0) return full;
  const call: ChatCall = {
    messages: await transcriptOf(input, earlier, deps),
    tools: schemasOf(await offeredTools(input, deps)),
    sampling: { ...sampling, maxTokens: Math.min(sampling.maxTokens, room) },
  };
  const answer = await ask(call);
  if (!answer) return full;
  const read = readAnswer(answer, await decidingOf(input, deps));
  return { ...base, ...read, end: read.end === 'length' && room <= sampling.maxTokens ? 'context' : read.end };
}
