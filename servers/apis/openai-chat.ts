/**
 * OpenAI's `/v1/chat/completions`, with vLLM's fields. Takes: a body of `readWritten`. Gives: its `ChatQuery` and
 * fields, and from answers the completion or its chunks. A field without an effect here is refused by name, unless its
 * value asks for the default behaviour.
 */

import { z } from 'zod';
import { type Message, readArguments, toolCallOf, type ToolSchema } from '../../protocol/message.ts';
import { memberOf, plainOf } from '../../protocol/written-json.ts';
import {
  type AnswerMeta,
  type ChatAnswer,
  type ChatCall,
  type ChatQuery,
  type TokenShown,
  toolChoiceOf,
} from './chat.ts';
import {
  alternatives,
  count,
  effort,
  flag,
  harmless,
  metadata,
  neutral,
  readAs,
  refuse,
  samplingFields,
  samplingOf,
  stopText,
  unionByType,
  verbosity,
} from './fields.ts';

const MOST_STOP_TOKENS = 256;

/** Fields that `/v1/completions` has too. */
export const commonFields = {
  ...samplingFields,
  model: z.string(),
  n: z
    .int()
    .min(1)
    .max(64)
    .nullish()
    .transform((value) => value ?? 1),
  stop: z
    .union([stopText, z.array(stopText).max(4)])
    .nullish()
    .transform((stop) => (typeof stop === 'string' ? [stop] : (stop ?? []))),
  /** Ids that the tokenizer lacks are refused where it is known. */
  stop_token_ids: z
    .array(z.int().min(0))
    .max(MOST_STOP_TOKENS)
    .nullish()
    .transform((ids) => ids ?? []),
  stream: flag(false),
  stream_options: z.strictObject({ include_usage: z.boolean().optional(), include_obfuscation: harmless }).nullish(),
  skip_special_tokens: flag(true),
  return_token_ids: flag(false),
  return_tokens_as_token_ids: flag(false),
  /** Number of the likeliest tokens at each position of the prompt. */
  prompt_logprobs: alternatives.nullish(),
  presence_penalty: neutral(0),
  frequency_penalty: neutral(0),
  logit_bias: z.strictObject({}).nullish(),
  user: z.string().nullish(),
  metadata,
  service_tier: harmless,
  safety_identifier: harmless,
  prompt_cache_key: harmless,
  prompt_cache_retention: harmless,
  /** Kept nowhere: this server has no list of completions. */
  store: harmless,
};

const textPart = z.object({ type: z.literal('text'), text: z.string() });
const content = z
  .preprocess(
    (value) => (typeof value === 'string' ? [{ type: 'text', text: value }] : value),
    z.array(unionByType([textPart], 'part'), 'give a text, or a list of parts').min(1),
  )
  .transform((parts) => parts.map(({ text }) => text).join(''));
const call = z.object({ id: z.string().nullish(), function: z.object({ name: z.string(), arguments: z.string() }) });
const message = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'developer', 'user']), content }),
  z
    .object({ role: z.literal('assistant'), content: content.nullish(), tool_calls: z.array(call).nullish() })
    .superRefine(({ content: said, tool_calls: calls }, context) => {
      if ((said === undefined || said === null) && (calls ?? []).length === 0)
        context.addIssue({ code: 'custom', path: ['content'], message: 'give a text, or tool_calls' });
    }),
  z.object({ role: z.literal('tool'), content, tool_call_id: z.string() }),
]);
const tool = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string().regex(/^[\w-]{1,64}$/, 'give 1 to 64 letters (a to z), digits, _ or -'),
    description: z
      .string()
      .nullish()
      .transform((text) => text ?? ''),
    parameters: z
      .record(z.string(), z.unknown())
      .nullish()
      .transform((parameters) => parameters ?? {}),
  }),
});
const named = z.object({ type: z.literal('function'), function: z.object({ name: z.string() }) });

const chatSchema = z
  .strictObject({
    ...commonFields,
    messages: z.array(message).min(1),
    tools: z
      .array(tool)
      .nullish()
      .transform((tools) => tools ?? []),
    tool_choice: z
      .union([z.enum(['auto', 'none', 'required']), named], 'give auto, none, required, or a function by its name')
      .nullish()
      .transform((choice) => (typeof choice === 'object' ? (choice?.function ?? 'auto') : (choice ?? 'auto'))),
    parallel_tool_calls: flag(true),
    max_tokens: count.nullish(),
    max_completion_tokens: count.nullish(),
    logprobs: flag(false),
    top_logprobs: alternatives.nullish().transform((value) => value ?? 0),
    response_format: z.strictObject({ type: z.literal('text') }).nullish(),
    reasoning_effort: effort,
    verbosity,
  })
  .superRefine(({ logprobs, top_logprobs: top, tools }, context) => {
    if (top > 0 && !logprobs)
      context.addIssue({ code: 'custom', path: ['top_logprobs'], message: 'give logprobs: true too' });
    const names = new Set<string>();
    for (const [
      i,
      {
        function: { name },
      },
    ] of tools.entries()) {
      const path = ['tools', i, 'function', 'name'];
      if (names.has(name)) context.addIssue({ code: 'custom', path, message: `two tools have the name ${name}` });
      names.add(name);
    }
  });

type Body = z.output<typeof chatSchema>;

/** Refuses, in both kinds of completion, what a stream has not, and what a stream alone has. Errors: `ApiError`. */
export function checkStreamed({
  stream,
  stream_options: options,
  prompt_logprobs: ofPrompt,
}: Pick<Body, 'stream' | 'stream_options' | 'prompt_logprobs'>): void {
  if (typeof ofPrompt === 'number' && stream) refuse('prompt_logprobs', 'a stream has none: give stream: false');
  if (options && !stream) refuse('stream_options', 'give stream: true too');
}

/** What the answer's form needs to know of a request. */
export type ChatFields = Pick<
  Body,
  'n' | 'stream_options' | 'stop_token_ids' | 'skip_special_tokens' | 'return_token_ids' | 'prompt_logprobs'
>;

export interface ChatRequest {
  readonly query: ChatQuery;
  readonly fields: ChatFields;
}

/** A tool of the body with its schema's numbers as they were written. `path`: of the schema in the tool. */
export function toolAsWritten(tool: unknown, path: readonly string[]): Readonly<Record<string, unknown>> {
  return (path.reduce(memberOf, tool) ?? {}) as Record<string, unknown>;
}

/** Errors: `ApiError` 400 if `text` is no JSON object. */
export function argumentsOf(text: string, at: string): object {
  const given = readArguments(text);
  return typeof given === 'string' ? refuse(at, `the arguments of a call must be a JSON object`) : given;
}

/** Messages in the form that chat templates read. Errors: `ApiError` 400 for an answer without its call. */
function templated(messages: Body['messages']): Message[] {
  const names = new Map<string, string>();
  return messages.map((one, i): Message => {
    if (one.role === 'tool') {
      const name = names.get(one.tool_call_id);
      if (name === undefined)
        refuse(
          `messages.${i}.tool_call_id`,
          `no call before it has the id ${JSON.stringify(one.tool_call_id.slice(0, 80))}`,
        );
      return { role: 'tool', name, content: one.content };
    }
    if (one.role !== 'assistant') return { role: one.role === 'developer' ? 'system' : one.role, content: one.content };
    const toolCalls = (one.tool_calls ?? []).map(({ id, function: { name, arguments: text } }, k) => {
      if (id) names.set(id, name);
      return toolCallOf(name, argumentsOf(text, `messages.${i}.tool_calls.${k}.function.arguments`));
    });
    return { role: 'assistant', content: one.content ?? '', ...(toolCalls.length > 0 ? { toolCalls } : {}) };
  });
}

/** `body`: the result of `readWritten`, so that numbers in tool schemas keep their notation. Errors: `ApiError`. */
export function readChatCompletion(body: unknown): ChatRequest {
  const request = readAs(chatSchema, plainOf(body));
  const given = (memberOf(body, 'tools') ?? []) as readonly unknown[];
  const tools = request.tools.map((one, i): ToolSchema => ({
    ...one,
    function: { ...one.function, parameters: toolAsWritten(given[i], ['function', 'parameters']) },
  }));
  checkStreamed(request);
  const query: ChatQuery = {
    model: request.model,
    messages: templated(request.messages),
    tools: request.tool_choice === 'none' ? [] : tools,
    toolChoice: toolChoiceOf(request.tool_choice, tools),
    oneCall: !request.parallel_tool_calls,
    prefill: '',
    sampling: samplingOf(request),
    maxTokens: request.max_completion_tokens ?? request.max_tokens ?? undefined,
    overflow: 'refuse',
    stops: request.stop,
    seed: request.seed ?? undefined,
    stream: request.stream,
    topLogprobs: request.logprobs ? request.top_logprobs : undefined,
  };
  const { n, stream_options, stop_token_ids, skip_special_tokens, return_token_ids, prompt_logprobs } = request;
  const fields = { n, stream_options, stop_token_ids, skip_special_tokens, return_token_ids, prompt_logprobs };
  return { query, fields };
}

const callOf = ({ id, name, arguments: text }: ChatCall) => ({
  id: `call_${id}`,
  type: 'function' as const,
  function: { name, arguments: text },
});

const shown = ({ top, ...token }: TokenShown) => ({ ...token, top_logprobs: top });

const logprobsOf = ({ logprobs }: ChatAnswer) =>
  logprobs === undefined ? null : { content: logprobs.map(shown), refusal: null };

const finishOf = ({ calls, finish }: ChatAnswer) =>
  calls.length > 0 ? 'tool_calls' : finish === 'context' ? 'length' : finish;

function usageOf(answers: readonly ChatAnswer[]) {
  const prompt = answers[0]?.promptTokens ?? 0;
  const completion = answers.reduce((sum, { answerTokens }) => sum + answerTokens, 0);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

/** The completion of a request; `extras`: further members of the completion, and of each choice. */
export function chatCompletionOf(
  answers: readonly ChatAnswer[],
  meta: AnswerMeta,
  extras: { readonly own?: object; readonly ofChoice?: (index: number) => object } = {},
): object {
  const choices = answers.map((answer, index) => {
    const { content, calls } = answer;
    const message = { role: 'assistant', content, ...(calls.length > 0 ? { tool_calls: calls.map(callOf) } : {}) };
    return {
      index,
      message,
      logprobs: logprobsOf(answer),
      finish_reason: finishOf(answer),
      ...extras.ofChoice?.(index),
    };
  });
  return { ...headOf(meta), object: 'chat.completion', choices, usage: usageOf(answers), ...extras.own };
}

const headOf = ({ id, created, model }: AnswerMeta) => ({ id: `chatcmpl-${id}`, created, model });

/** Chunks of a streamed completion. A choice's role is sent with its first delta, and its calls in one chunk. */
export class ChatChunks {
  readonly #meta: AnswerMeta;
  readonly #begun = new Set<number>();
  readonly #usage: object;

  /** `hasUsage`: the last chunk has the usage, so that each one before it says `usage: null`. */
  constructor(meta: AnswerMeta, { hasUsage }: { readonly hasUsage: boolean }) {
    this.#meta = meta;
    this.#usage = hasUsage ? { usage: null } : {};
  }

  /** The first chunk of a choice; nothing if it was sent. */
  begin(index: number): object[] {
    if (this.#begun.has(index)) return [];
    this.#begun.add(index);
    return [this.#chunk(index, { role: 'assistant', content: '' })];
  }

  text(index: number, content: string): object {
    return this.#chunk(index, { content });
  }

  end(index: number, answer: ChatAnswer): object[] {
    const calls = answer.calls.map((one, k) => ({ index: k, ...callOf(one) }));
    return [
      ...(calls.length > 0 ? [this.#chunk(index, { tool_calls: calls })] : []),
      this.#chunk(index, {}, { finish_reason: finishOf(answer), logprobs: logprobsOf(answer) }),
    ];
  }

  usage(answers: readonly ChatAnswer[]): object {
    return { ...headOf(this.#meta), object: 'chat.completion.chunk', choices: [], usage: usageOf(answers) };
  }

  #chunk(index: number, delta: object, rest: object = {}): object {
    const choice = { index, delta, logprobs: null, finish_reason: null, ...rest };
    return { ...headOf(this.#meta), object: 'chat.completion.chunk', choices: [choice], ...this.#usage };
  }
}
