/**
 * OpenAI's `/v1/chat/completions` as agents of other people send it, for a recorded rollout: what a policy is asked is
 * read strictly, and settings that a rollout has itself (temperature, seed, penalties) are not taken from the agent.
 */

import { z } from 'zod';
import { askedDigest } from '../../activities/generate/call-digests.ts';
import { type CallRequest, problemOfStops } from '../../protocol/gateway.ts';
import { argumentsText, type Message, readArguments, toolCallOf } from '../../protocol/message.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { plainOf, readWritten } from '../../protocol/written-json.ts';
import { ApiError } from '../http/api-error.ts';

/** A request of whatever API: what is asked, and how its answer is written. */
export interface AskedCall {
  readonly request: CallRequest;
  readonly asked: string;
  /** The same turn gives the same bytes. */
  answer(answered: AnsweredCall): WrittenAnswer;
}

export interface WrittenAnswer {
  readonly contentType: string;
  readonly body: string;
}

export const jsonAnswer = (body: object): WrittenAnswer => ({
  contentType: 'application/json',
  body: JSON.stringify(body),
});
export const streamAnswer = (body: string): WrittenAnswer => ({ contentType: 'text/event-stream', body });

/** A turn on record, with the number and the time of its call. */
export interface AnsweredCall {
  readonly turn: number;
  readonly record: GenerateRecord;
  /** ISO 8601, UTC. */
  readonly at: string;
  /** Unique to the call. */
  readonly id: string;
}

const part = z.looseObject({ type: z.string(), text: z.string().optional() });
const content = z
  .union([z.string(), z.array(part)])
  .nullish()
  .transform((given, context) => {
    if (typeof given === 'string') return given;
    const other = (given ?? []).find(({ type }) => type !== 'text' && type !== 'refusal');
    if (other !== undefined)
      context.addIssue({ code: 'custom', message: `the policy takes text alone, no ${other.type.slice(0, 40)}` });
    return (given ?? []).map(({ text = '' }) => text).join('');
  });
const call = z.looseObject({
  id: z.string().nullish(),
  function: z.looseObject({ name: z.string(), arguments: z.string().nullish() }),
});
const message = z.discriminatedUnion('role', [
  z.looseObject({ role: z.enum(['system', 'developer', 'user']), content }),
  z.looseObject({ role: z.literal('assistant'), content, tool_calls: z.array(call).nullish() }),
  z.looseObject({ role: z.literal('tool'), content, tool_call_id: z.string().nullish(), name: z.string().nullish() }),
]);
const tool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: z.string().min(1).max(256),
    description: z.string().nullish(),
    parameters: z.record(z.string(), z.unknown()).nullish(),
  }),
});
const count = z.int().min(1).nullish();
const schema = z.looseObject({
  model: z.string().default('policy'),
  messages: z.array(message).min(1).max(10_000),
  tools: z.array(tool).max(512).nullish(),
  tool_choice: z.unknown().optional(),
  max_tokens: count,
  max_completion_tokens: count,
  stop: z.union([z.string().min(1), z.array(z.string().min(1))]).nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  n: z.literal(1, { error: 'a call has one answer' }).nullish(),
  response_format: z
    .looseObject({ type: z.literal('text', { error: 'answers are not constrained: give text' }) })
    .nullish(),
});

type Given = z.output<typeof schema>;

/** Errors: `TypeError` if it is no UTF-8. */
export const bodyText = (body: Uint8Array): string => new TextDecoder('utf-8', { fatal: true }).decode(body);

function read(body: Uint8Array): Given {
  let given: unknown;
  try {
    given = plainOf(readWritten(bodyText(body)));
  } catch (error) {
    throw new ApiError(400, `the body is not JSON: ${(error as Error).message.slice(0, 200)}`);
  }
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const param = issue?.path.join('.') ?? '';
  throw new ApiError(400, `${param || 'the body'}: ${issue?.message ?? 'it cannot be read'}`, { param });
}

function messagesOf({ messages }: Given): Message[] {
  const names = new Map<string, string>();
  return messages.map((one, i): Message => {
    if (one.role === 'tool')
      return { role: 'tool', name: names.get(one.tool_call_id ?? '') ?? one.name ?? '', content: one.content };
    if (one.role !== 'assistant') return { role: one.role === 'developer' ? 'system' : one.role, content: one.content };
    const toolCalls = (one.tool_calls ?? []).map(({ id, function: { name, arguments: text } }, k) => {
      if (id) names.set(id, name);
      const given = readArguments(text ?? '');
      const param = `messages.${i}.tool_calls.${k}.function.arguments`;
      if (typeof given === 'string') throw new ApiError(400, `${param}: give a JSON object`, { param });
      return toolCallOf(name, given);
    });
    return { role: 'assistant', content: one.content, ...(toolCalls.length > 0 && { toolCalls }) };
  });
}

/** Errors: `ApiError` 400 for the field at `param`. */
export function checkStops(stops: readonly string[], param: string): void {
  const problem = problemOfStops(stops);
  if (problem !== undefined) throw new ApiError(400, `${param}: ${problem}`, { param });
}

/** Errors: `ApiError` 400 with the first wrong field. */
export function readChatCall(body: Uint8Array): AskedCall {
  const given = read(body);
  const tools = given.tool_choice === 'none' ? [] : (given.tools ?? []);
  const maxTokens = given.max_completion_tokens ?? given.max_tokens ?? undefined;
  const stop = typeof given.stop === 'string' ? [given.stop] : (given.stop ?? []);
  checkStops(stop, 'stop');
  const request: CallRequest = {
    messages: messagesOf(given),
    tools: tools.map(({ function: { name, description, parameters } }) => ({
      type: 'function',
      function: { name, description: description ?? '', parameters: parameters ?? {} },
    })),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(stop.length > 0 && { stop }),
  };
  const { model, stream, stream_options: options } = given;
  return {
    request,
    asked: askedDigest(request),
    answer: (answered) =>
      stream
        ? streamAnswer(chatEvents(answered, { model, usage: options?.include_usage ?? false }))
        : jsonAnswer(chatAnswer(answered, model)),
  };
}

/** Why the answer ended, in OpenAI's words. */
function finishOf({ parsed, end }: GenerateRecord): string {
  if (end === 'refused') return 'content_filter';
  if (end !== 'stop') return 'length';
  return parsed.kind === 'calls' ? 'tool_calls' : 'stop';
}

function callsOf({ parsed }: GenerateRecord, turn: number) {
  if (parsed.kind !== 'calls') return [];
  return parsed.calls.map((one, i) => ({
    id: `call_${turn}_${i}`,
    type: 'function',
    function: { name: one.name, arguments: argumentsText(one) },
  }));
}

function usageOf({ call: asked, sampled, chat }: GenerateRecord) {
  const prompt = chat?.usage?.promptTokens ?? asked?.promptTokens ?? 0;
  const completion = chat?.usage?.completionTokens ?? sampled.length;
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

/** Seconds since 1970. */
export const dated = (at: string): number => Math.floor(Date.parse(at) / 1000);

function chatAnswer({ turn, record, at, id }: AnsweredCall, model: string): object {
  const calls = callsOf(record, turn);
  const said = { role: 'assistant', content: record.parsed.content, ...(calls.length > 0 && { tool_calls: calls }) };
  return {
    id: `chatcmpl-${id}`,
    object: 'chat.completion',
    created: dated(at),
    model,
    choices: [{ index: 0, message: said, logprobs: null, finish_reason: finishOf(record) }],
    usage: usageOf(record),
  };
}

function chatEvents(
  answered: AnsweredCall,
  { model, usage }: { readonly model: string; readonly usage: boolean },
): string {
  const { turn, record, at, id } = answered;
  const common = { id: `chatcmpl-${id}`, object: 'chat.completion.chunk', created: dated(at), model };
  const chunk = (delta: object, finish: string | null = null) => ({
    ...common,
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  });
  const { content: text } = record.parsed;
  const calls = callsOf(record, turn);
  const chunks = [
    chunk({ role: 'assistant', content: '' }),
    ...(text === '' ? [] : [chunk({ content: text })]),
    ...(calls.length === 0 ? [] : [chunk({ tool_calls: calls.map((one, index) => ({ index, ...one })) })]),
    chunk({}, finishOf(record)),
    ...(usage ? [{ ...common, choices: [], usage: usageOf(record) }] : []),
  ];
  return `${chunks.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('')}data: [DONE]\n\n`;
}
