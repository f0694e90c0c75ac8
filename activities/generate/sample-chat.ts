/**
 * One turn by chat: the transcript is built from the records and sent in OpenAI's form, and the answer is recorded
 * unchanged.
 */

import { parseTurn, withoutReasoning } from '../../agents/codecs/codec.ts';
import { codecNamed } from '../../agents/codecs/codecs.ts';
import { type ConversationForm, textForm } from '../../agents/conversation-form.ts';
import { schemasOf } from '../../agents/tools/toolbox.ts';
import { offeredTools } from '../../tasks/offered-tools.ts';
import { openingMessages } from '../../tasks/opening-messages.ts';
import { commandOf, type Deciding, decidingOf } from './decide.ts';
import { chatAnswerMessages, type ChatCall, chatTurnMessage, parseChatTurn } from '../../endpoints/chat.ts';
import type { ChatAnswer } from '../../protocol/endpoint.ts';
import type { ParsedTurn, ToolSchema } from '../../protocol/message.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { answerTo, contextTokensAfter, type GenerateRecord } from '../../protocol/records.ts';
import { actsOf, turnsOf } from '../../store/read-records.ts';
import type { TurnDeps } from './sample-ids.ts';

const UNTRAINABLE = 'the endpoint was asked in chat, which gives no token ids';

/** The form in which a server without tools is asked. `undefined`: the server renders and parses calls itself. */
function ownFormOf({ conversation = {} }: GenerateInput): ConversationForm | undefined {
  const { codec, preamble } = conversation;
  return codec === undefined || codec === 'server' ? undefined : textForm(codecNamed(codec), preamble);
}

/** A turn as it is sent back. */
function turnAgain(turn: GenerateRecord, answer: ChatAnswer['turn'], { conversation }: GenerateInput) {
  const reasoning = conversation?.reasoning;
  const message = chatTurnMessage(answer, turn.parsed.kind === 'calls', reasoning === 'keep');
  if (reasoning !== 'remove' || typeof message['content'] !== 'string') return message;
  const { codec } = conversation ?? {};
  const reader = codecNamed(codec === undefined || codec === 'server' ? 'hermes-json' : codec);
  return { ...message, content: withoutReasoning(message['content'], reader) };
}

/** The messages of a task, and of the turns so far; and the tools that the server is told of. */
async function conversationOf(
  input: GenerateInput,
  earlier: readonly GenerateRecord[],
  { store, tasks }: TurnDeps,
): Promise<Pick<ChatCall, 'messages' | 'tools'>> {
  const acts = await actsOf(store, input);
  const form = ownFormOf(input);
  const messages = await openingMessages(input, { store, tasks });
  const tools = schemasOf(await offeredTools(input, { store, tasks }));
  const opening = form?.whole(messages, tools) ?? { messages, tools };
  const given = opening.messages.map(({ role, content }) => ({ role, content }));
  const said = earlier.flatMap((turn, i) => {
    if (!turn.chat) return [];
    const answers = answerTo(turn, acts.get(i + 1));
    return [
      turnAgain(turn, turn.chat.turn, input),
      ...chatAnswerMessages(turn.chat.turn, form?.added(answers) ?? answers),
    ];
  });
  return { messages: [...given, ...said], tools: opening.tools };
}

/** A server that knows the form of calls parses them; otherwise `form` does. */
function parsedBy(
  form: ConversationForm | undefined,
  turn: ChatAnswer['turn'],
  tools: readonly ToolSchema[],
): ParsedTurn {
  if (form === undefined || turn.toolCalls.length > 0) return parseChatTurn(turn);
  const parsed = parseTurn(turn.content || (turn.refusal ?? ''), form.codec, { tools });
  return parsed.kind === 'malformed' ? { ...parsed, content: turn.content } : parsed;
}

function readAnswer(
  { turn, finish, usage }: ChatAnswer,
  agent: Deciding,
  form: ConversationForm | undefined,
  tools: readonly ToolSchema[],
): Pick<GenerateRecord, 'parsed' | 'command' | 'chat' | 'end'> {
  const chat = { turn, usage };
  if (finish === 'unreadable') {
    const error = 'The server itself did not understand it.';
    const parsed = { kind: 'malformed', content: '', error } as const;
    return { chat, end: 'stop', parsed, command: commandOf(agent, parsed, 'server') };
  }
  const end = finish === 'filtered' ? 'refused' : finish;
  if (end !== 'stop') return { chat, end, parsed: { kind: 'no-call', content: turn.content || (turn.refusal ?? '') } };
  const parsed: ParsedTurn =
    agent.type.reads === 'text'
      ? { kind: 'no-call', content: turn.content || (turn.refusal ?? '') }
      : parsedBy(form, turn, tools);
  return { chat, end, parsed, command: commandOf(agent, parsed, form?.codec.name ?? 'server') };
}

/**
 * Samples the turn by `ask`, unless the context has no room for it. `ask` returns `null` if the server found no room.
 */
export async function sampleChat(
  input: GenerateInput,
  deps: TurnDeps,
  ask: (call: ChatCall) => Promise<ChatAnswer | null>,
): Promise<GenerateRecord> {
  const { sampling, maxContextTokens, turn, policy } = input;
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
  const full: GenerateRecord = { ...base, end: 'context-full', parsed: { kind: 'no-call', content: '' } };
  if (room <= 0) return full;
  const call: ChatCall = {
    ...(await conversationOf(input, earlier, deps)),
    sampling: { ...sampling, maxTokens: Math.min(sampling.maxTokens, room) },
  };
  const answer = await ask(call);
  if (!answer) return full;
  const read = readAnswer(
    answer,
    await decidingOf(input, deps),
    ownFormOf(input),
    schemasOf(await offeredTools(input, deps)),
  );
  return { ...base, ...read, end: read.end === 'length' && room <= sampling.maxTokens ? 'context-full' : read.end };
}
