/**
 * A program's model call in token ids. The history that it sends is matched with earlier calls of its attempt: where it
 * begins with one and its answer, that call's ids are continued, and what was sampled is never encoded again. Any
 * earlier call may be continued, by several, so that an attempt is a forest. A request that cannot be answered is a
 * turn without tokens, and no failure: how a program asks is its own doing.
 */

import { opensReasoning, parseTurn } from '../../agents/codecs/codec.ts';
import { type ConversationForm, conversationForm } from '../../agents/conversation-form.ts';
import { renderAfterTurn, renderContinuation, renderPrompt } from '../../agents/render-conversation.ts';
import type { CallOfTurn, CallRecord, CallRequest } from '../../protocol/gateway.ts';
import { argumentsText, type Message, type ParsedTurn } from '../../protocol/message.ts';
import type { ActRecord, GenerateRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import type { CallInput, GenerateInput } from '../../protocol/stages.ts';
import { spoken } from '../../protocol/transcript.ts';
import { StoreCorrupt } from '../../store/disk-errors.ts';
import type { Store } from '../../store/store.ts';
import { prefixDigests, saidAfter } from './call-digests.ts';
import type { IdsAnswer, IdsCall, PolicyTokenizer } from './sample-ids.ts';

export type CallTurnInput = GenerateInput & { readonly call: CallInput };

export const isCallInput = (input: GenerateInput): input is CallTurnInput => input.call !== undefined;

/** Recorded turns of calls, by number. Those in between may still be sampled. */
export type EarlierCalls = ReadonlyMap<number, GenerateRecord & { readonly call: CallOfTurn }>;

/** Errors: `StoreCorrupt` if the request is missing. */
export async function requestOf(input: CallTurnInput, store: Store): Promise<CallRequest> {
  const key = keys.call(input, input.call.call);
  const record = await store.get<CallRecord>(key);
  if (!record) throw new StoreCorrupt('', `the record ${key} is missing`, { key });
  return JSON.parse(Buffer.from(await store.getObject(record.artifact)).toString()) as CallRequest;
}

export async function earlierCalls(input: CallTurnInput, store: Store): Promise<EarlierCalls> {
  const rows = await store.list<GenerateRecord>(`generate:${attemptKey(input)}/`);
  const found = new Map<number, GenerateRecord & { readonly call: CallOfTurn }>();
  for (const { key, value } of rows) {
    const turn = Number(key.slice(key.lastIndexOf('/') + 1));
    if (turn < input.turn && value.call !== undefined) found.set(turn, { ...value, call: value.call });
  }
  return found;
}

/** All ids after the answer of `turn`. 0: none. */
export function idsAfter(turn: number, earlier: EarlierCalls): number[] {
  const parts: Array<readonly number[]> = [];
  for (let at = turn; at > 0;) {
    const record = earlier.get(at);
    if (record === undefined) throw new Error(`turn ${at} is no call on record`);
    parts.push(record.sampled, record.appended);
    at = record.call.follows;
  }
  return parts.reverse().flatMap((ids) => [...ids]);
}

/** How much of a request an earlier call and its answer are. */
export interface Match {
  readonly turn: number;
  /** Messages of the request up to the answer, which is included. */
  readonly messages: number;
}

/** The call whose request and answer are the longest beginning of this one; of equal ones the first. */
export function matchOf(digests: readonly string[], earlier: EarlierCalls): Match | undefined {
  const turns = new Map<string, number>();
  for (const [turn, { call }] of earlier)
    if (call.said !== undefined && !turns.has(call.said)) turns.set(call.said, turn);
  // An answer that nothing follows is no beginning: its model is asked to continue its own message.
  for (let messages = digests.length - 2; messages > 0; messages -= 1) {
    const turn = turns.get(digests[messages] ?? '');
    if (turn !== undefined) return { turn, messages };
  }
  return undefined;
}

interface Prompt {
  readonly follows: number;
  readonly appended: readonly number[];
  readonly context: readonly number[];
  /** What followed the answer of the turn that it continues. */
  readonly added: readonly Message[];
}

const opening = (messages: readonly Message[]): readonly Message[] => {
  const answer = messages.findIndex(({ role }) => role === 'assistant');
  return answer < 0 ? messages : messages.slice(0, answer);
};

interface Writing {
  readonly tokenizer: PolicyTokenizer;
  readonly form: ConversationForm;
  readonly reasoning: NonNullable<GenerateInput['conversation']>['reasoning'];
}

/** The ids that follow an earlier answer; `undefined`: the template changes what came before. */
function following(
  { messages, tools }: CallRequest,
  { end, stopText }: GenerateRecord,
  added: readonly Message[],
  { tokenizer, form, reasoning }: Writing,
): number[] | undefined {
  if (reasoning === 'remove') return undefined;
  const first = form.whole(opening(messages), tools);
  const render = reasoning === undefined ? renderContinuation : renderAfterTurn;
  const ids = render(tokenizer, first.messages, form.added(added), first.tools);
  // An answer that was cut, or that a text ended, lacks the token that ends a turn.
  const isCut = end !== 'stop' || stopText !== undefined;
  return ids && [...(isCut ? tokenizer.encode(tokenizer.endOfTurn) : []), ...ids];
}

function promptOf(request: CallRequest, digests: readonly string[], earlier: EarlierCalls, writing: Writing): Prompt {
  const match = matchOf(digests, earlier);
  const record = match && earlier.get(match.turn);
  if (match && record) {
    const added = request.messages.slice(match.messages);
    const appended = following(request, record, added, writing);
    if (appended)
      return { follows: match.turn, appended, context: [...idsAfter(match.turn, earlier), ...appended], added };
  }
  const whole = writing.form.whole(request.messages, request.tools);
  const appended = renderPrompt(writing.tokenizer, whole.messages, whole.tools);
  return { follows: 0, appended, context: appended, added: [] };
}

const NOTHING: ParsedTurn = { kind: 'no-call', content: '' };
type Refusal = NonNullable<CallOfTurn['refused']>;

/** Texts longer than the context could be, however they are encoded, are not encoded at all. */
const MOST_CHARACTERS_A_TOKEN = 16;

const tooLong = (prompt: number | string, limit: number): Refusal => ({
  code: 'context_length_exceeded',
  message:
    `This model's maximum context length is ${limit} tokens. However, your messages resulted in ` + `${prompt} tokens.`,
});

/** Characters of all that the template writes, about. */
function charactersOf({ messages, tools }: CallRequest): number {
  const calls = messages.flatMap((one) => (one.role === 'assistant' ? (one.toolCalls ?? []) : []));
  return (
    messages.reduce((sum, { content }) => sum + content.length, 0) +
    calls.reduce((sum, one) => sum + one.name.length + argumentsText(one).length, 0) +
    (tools.length > 0 ? JSON.stringify(tools).length : 0)
  );
}

/**
 * The prompt, or why there is none. The template is the same for every request: what it refuses is this one's doing.
 */
function preparedPrompt(
  request: CallRequest,
  digests: readonly string[],
  earlier: EarlierCalls,
  writing: Writing,
  limit: number,
): Prompt | Refusal {
  if (charactersOf(request) > limit * MOST_CHARACTERS_A_TOKEN) return tooLong('many more', limit);
  try {
    const prompt = promptOf(request, digests, earlier, writing);
    return prompt.context.length < limit ? prompt : tooLong(prompt.context.length, limit);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return {
      code: 'invalid_messages',
      message: `messages: the chat template cannot render them: ${why.slice(0, 300)}`,
    };
  }
}

/** How often the same prompt was asked before. */
function timesAsked({ call: { asked, twins } }: CallTurnInput, earlier: EarlierCalls): number {
  const recorded = [...earlier].filter(([turn, { call }]) => call.asked === asked && !twins.includes(turn));
  return recorded.length + twins.length;
}

/** The engine's error: its context is shorter than the prompt. */
const limitIn = (error: unknown): number | undefined =>
  error instanceof Error && error.name === 'ContextTooLong' && 'limit' in error ? Number(error.limit) : undefined;

async function askedWithin(asking: () => Promise<IdsAnswer>, prompt: Prompt): Promise<IdsAnswer | Refusal> {
  try {
    const answer = await asking();
    return answer.finish === 'context' && answer.tokens.length === 0
      ? tooLong(prompt.context.length, prompt.context.length)
      : answer;
  } catch (error) {
    const limit = limitIn(error);
    if (limit === undefined) throw error;
    return tooLong(prompt.context.length, limit);
  }
}

function readAnswer(
  { tokens, finish, stopText }: IdsAnswer,
  prompt: Prompt,
  { tools }: CallRequest,
  { tokenizer, form }: Writing,
): ParsedTurn {
  const isStopped = finish === 'stop';
  const text = tokenizer.decode(isStopped && stopText === undefined ? tokens.slice(0, -1) : tokens);
  const content = stopText === undefined ? text : text.slice(0, Math.max(0, text.lastIndexOf(stopText)));
  if (tools.length === 0 || !isStopped) return { kind: 'no-call', content };
  const inReasoning = opensReasoning(tokenizer.decode(prompt.context.slice(-8)));
  const parsed = parseTurn(content, form.codec, { tools, inReasoning });
  return parsed.kind === 'calls' ? parsed : { kind: 'no-call', content };
}

/** Samples the call by `ask`. `takesStop`: the sampler knows texts that end an answer. */
export async function sampleCall(
  input: CallTurnInput,
  tokenizer: PolicyTokenizer,
  { store }: { readonly store: Store },
  ask: (call: IdsCall) => Promise<IdsAnswer>,
  takesStop = true,
): Promise<GenerateRecord> {
  const { conversation = {}, maxContextTokens = Number.MAX_SAFE_INTEGER, policy } = input;
  const request = await requestOf(input, store);
  const earlier = await earlierCalls(input, store);
  const digests = prefixDigests(request);
  const writing = { tokenizer, form: conversationForm(tokenizer, conversation), reasoning: conversation.reasoning };
  const named = { call: input.call.call, asked: input.call.asked };
  const refused = (refusal: Refusal): GenerateRecord => ({
    version: policy.version,
    appended: [],
    reset: false,
    sampled: [],
    logprobs: [],
    end: refusal.code === 'context_length_exceeded' ? 'context' : 'refused',
    parsed: NOTHING,
    call: { ...named, follows: 0, promptTokens: 0, refused: refusal },
  });
  if (!takesStop && request.stop !== undefined)
    return refused({
      code: 'unsupported_stop',
      message: 'stop: this policy’s sampler knows no such texts; leave it out',
    });
  const prompt = preparedPrompt(request, digests, earlier, writing, maxContextTokens);
  if ('code' in prompt) return refused(prompt);
  const { follows, appended, context, added } = prompt;
  const room = maxContextTokens - context.length;
  const stop = [...(input.sampling.stop ?? []), ...(request.stop ?? [])];
  const sampling = {
    ...input.sampling,
    maxTokens: Math.min(input.sampling.maxTokens, request.maxTokens ?? room, room),
    ...(stop.length > 0 && { stop }),
  };
  const noiseKey = `${input.noiseKey}/${input.call.asked}/${timesAsked(input, earlier)}`;
  const answer = await askedWithin(
    () => ask({ tokens: context, sampling, stopTokenIds: tokenizer.stopTokenIds, noiseKey }),
    prompt,
  );
  if ('code' in answer) return refused(answer);
  const parsed = readAnswer(answer, prompt, request, writing);
  if (follows > 0) await store.putOnce<ActRecord>(keys.act(input, follows), { messages: added });
  return {
    version: policy.version,
    appended,
    reset: false,
    sampled: answer.tokens,
    logprobs: answer.logprobs,
    temperature: sampling.temperature,
    end: answer.finish,
    parsed,
    command: { do: parsed.kind === 'calls' ? 'act' : 'answer' },
    ...(answer.untrainable !== undefined && { untrainable: answer.untrainable }),
    ...(answer.stopText !== undefined && { stopText: answer.stopText }),
    call: {
      ...named,
      said: saidAfter(digests.at(-1) ?? '', spoken({ parsed } as GenerateRecord)),
      follows,
      promptTokens: context.length,
    },
  };
}
