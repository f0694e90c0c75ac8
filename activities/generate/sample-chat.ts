/**
 * One turn by chat: the transcript is built from the records and sent in OpenAI's form, and the answer is recorded
 * unchanged.
 */

import { parseTurn, withoutReasoning } from '../../agents/codecs/codec.ts';
import { codecNamed } from '../../agents/codecs/codecs.ts';
import { type ConversationForm, textForm } from '../../agents/conversation-form.ts';
import { schemasOf } from '../../agents/tools/toolbox.ts';
import { type AgentAtWork, agentAtWork, decided, tokensAbout, type TurnDeps } from './agent-at-work.ts';
import {
  chatAnswerMessages,
  type ChatCall,
  chatImagesMessage,
  chatTurnMessage,
  parseChatTurn,
} from '../../endpoints/chat.ts';
import type { ChatAnswer } from '../../protocol/endpoint.ts';
import { type ImageRef, MOST_IMAGES_SENT } from '../../protocol/image.ts';
import type { Message, ParsedTurn } from '../../protocol/message.ts';
import type { GenerateInput } from '../../protocol/stages.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { contextTokensAfter } from '../../protocol/transcript.ts';

const UNTRAINABLE = 'the endpoint was asked in chat, which gives no token ids';

/** The form in which a server without tools is asked. `undefined`: the server renders and parses calls itself. */
function ownFormOf({ conversation = {} }: GenerateInput): ConversationForm | undefined {
  const { codec, preamble } = conversation;
  return codec === undefined || codec === 'server' ? undefined : textForm(codecNamed(codec), preamble);
}

/** A turn as it is sent back. */
function turnAgain(record: GenerateRecord, turn: ChatAnswer['turn'], { conversation = {} }: GenerateInput) {
  const { reasoning, codec } = conversation;
  const message = chatTurnMessage(turn, record.parsed.kind === 'calls', reasoning === 'keep');
  const { content } = message;
  if (reasoning !== 'remove' || typeof content !== 'string') return message;
  const reader = codecNamed(codec === undefined || codec === 'server' ? 'hermes-json' : codec);
  return { ...message, content: withoutReasoning(content, reader) };
}

const imagesIn = (received: readonly Message[]): readonly ImageRef[] =>
  received.flatMap((message) => (message.role === 'tool' ? (message.images ?? []) : []));

/** The images that the endpoint is sent: the newest, if it takes any. Older ones are there as text. */
function sentImages(earlier: AgentAtWork['earlier'], { policy }: GenerateInput): ReadonlySet<ImageRef> {
  if (!('endpoint' in policy) || policy.endpoint.images !== true) return new Set();
  return new Set(earlier.flatMap(({ received }) => imagesIn(received)).slice(-MOST_IMAGES_SENT));
}

async function imagesMessage(images: readonly ImageRef[], store: TurnDeps['store']): Promise<ChatCall['messages']> {
  if (images.length === 0) return [];
  const all = images.map(async ({ ref, mediaType }) => ({ mediaType, bytes: await store.getObject(ref) }));
  return [chatImagesMessage(await Promise.all(all))];
}

/** What the agent read first, and its turns so far; and the tools that the server is sent. */
async function conversationOf(
  { opening, earlier, tools }: AgentAtWork,
  input: GenerateInput,
  store: TurnDeps['store'],
): Promise<Pick<ChatCall, 'messages' | 'tools'>> {
  const form = ownFormOf(input);
  const schemas = schemasOf(tools);
  const first = form?.whole(opening, schemas) ?? { messages: opening, tools: schemas };
  const given = first.messages.map(({ role, content }) => ({ role, content }));
  const sent = sentImages(earlier, input);
  const said: Array<ChatCall['messages'][number]> = [];
  for (const { record, received } of earlier) {
    if (!record.chat) continue;
    const { turn } = record.chat;
    said.push(turnAgain(record, turn, input), ...chatAnswerMessages(turn, form?.added(received) ?? received));
    said.push(
      ...(await imagesMessage(
        imagesIn(received).filter((image) => sent.has(image)),
        store,
      )),
    );
  }
  return { messages: [...given, ...said], tools: first.tools };
}

/** A server that knows the form of calls parses them; otherwise `form` does. */
function parsedBy(form: ConversationForm | undefined, turn: ChatAnswer['turn'], { tools }: AgentAtWork): ParsedTurn {
  if (form === undefined || turn.toolCalls.length > 0) return parseChatTurn(turn);
  const parsed = parseTurn(turn.content || (turn.refusal ?? ''), form.codec, { tools: schemasOf(tools) });
  return parsed.kind === 'malformed' ? { ...parsed, content: turn.content } : parsed;
}

function readAnswer(
  { turn, finish, usage }: ChatAnswer,
  agent: AgentAtWork,
  ownForm: ConversationForm | undefined,
): Pick<GenerateRecord, 'parsed' | 'command' | 'chat' | 'end'> {
  const chat = { turn, usage };
  const contextTokens = usage ? usage.promptTokens + usage.completionTokens : tokensAbout(agent, turn.content);
  const form = ownForm?.codec.name ?? 'server';
  const read = (parsed: ParsedTurn) => ({ chat, ...decided(agent, { parsed, form, contextTokens }) });
  if (finish === 'unreadable')
    return read({ kind: 'malformed', content: '', error: 'The server itself did not understand it.' });
  const end = finish === 'filtered' ? 'refused' : finish;
  const content = turn.content || (turn.refusal ?? '');
  if (end !== 'stop') return { chat, end, parsed: { kind: 'no-call', content } };
  return read(agent.type.reads === 'text' ? { kind: 'no-call', content } : parsedBy(ownForm, turn, agent));
}

/**
 * Samples the turn by `ask`, unless the context has no room for it. `ask` returns `null` if the server found no room.
 */
export async function sampleChat(
  input: GenerateInput,
  deps: TurnDeps,
  ask: (call: ChatCall) => Promise<ChatAnswer | null>,
): Promise<GenerateRecord> {
  const { sampling, maxContextTokens = Number.POSITIVE_INFINITY, policy } = input;
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
  const full: GenerateRecord = { ...base, end: 'context', parsed: { kind: 'no-call', content: '' } };
  if (room <= 0) return full;
  const call: ChatCall = {
    ...(await conversationOf(agent, input, deps.store)),
    sampling: { ...sampling, maxTokens: Math.min(sampling.maxTokens, room) },
  };
  const answer = await ask(call);
  if (!answer) return full;
  const read = readAnswer(answer, agent, ownFormOf(input));
  return { ...base, ...read, end: read.end === 'length' && room <= sampling.maxTokens ? 'context' : read.end };
}
