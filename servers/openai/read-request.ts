/**
 * The schemas of OpenAI's `/v1/completions` and `/v1/chat/completions`, with vLLM's fields for token ids. A field
 * without an effect here is refused by its name, unless its value asks for the default behaviour.
 */

import { z } from 'zod';
import { memberOf, plainOf } from '../../protocol/written-json.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { ApiError } from '../http/api-error.ts';

const count = z.int().min(1);
const neutral = <T extends z.core.util.Literal>(value: T) => z.literal(value).nullish();
const stops = z
  .union([z.string().min(1), z.array(z.string().min(1)).max(4)])
  .nullish()
  .transform((stop) => (typeof stop === 'string' ? [stop] : (stop ?? [])));

/** The smallest values by which the engine's float32 can divide logits. */
const [COLDEST, LEAST_PENALTY] = [1e-30, 0.01];

/** vLLM's `max_logprobs`. */
const alternatives = z.int().min(0).max(20);

const common = {
  model: z.string(),
  max_tokens: count.nullish(),
  temperature: z
    .number()
    .min(0)
    .max(10)
    .refine((value) => value === 0 || value >= COLDEST, `give 0 (greedy), or a number of at least ${COLDEST}`)
    .nullish()
    .transform((value) => value ?? 1),
  top_p: z
    .number()
    .gt(0)
    .max(1)
    .nullish()
    .transform((value) => value ?? 1),
  /** −1 (vLLM) and 0 both mean no limit. */
  top_k: z
    .int()
    .min(-1)
    .nullish()
    .transform((value) => Math.max(0, value ?? 0)),
  min_p: z
    .number()
    .min(0)
    .max(1)
    .nullish()
    .transform((value) => value ?? 0),
  repetition_penalty: z
    .number()
    .min(LEAST_PENALTY)
    .max(10)
    .nullish()
    .transform((value) => value ?? 1),
  n: z
    .int()
    .min(1)
    .max(64)
    .nullish()
    .transform((value) => value ?? 1),
  seed: z.int().nullish(),
  stop: stops,
  stop_token_ids: z
    .array(z.int().min(0))
    .nullish()
    .transform((ids) => ids ?? []),
  stream: z
    .boolean()
    .nullish()
    .transform((value) => value ?? false),
  stream_options: z.strictObject({ include_usage: z.boolean().optional() }).nullish(),
  skip_special_tokens: z
    .boolean()
    .nullish()
    .transform((value) => value ?? true),
  return_token_ids: z
    .boolean()
    .nullish()
    .transform((value) => value ?? false),
  return_tokens_as_token_ids: z
    .boolean()
    .nullish()
    .transform((value) => value ?? false),
  presence_penalty: neutral(0),
  frequency_penalty: neutral(0),
  logit_bias: z.strictObject({}).nullish(),
  user: z.string().nullish(),
  metadata: z.unknown().optional(),
  store: neutral(false),
};

const isListOf = <T>(value: unknown, isOne: (one: unknown) => one is T): value is T[] =>
  Array.isArray(value) && value.length > 0 && value.every(isOne);
const isId = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isText = (value: unknown): value is string => typeof value === 'string';
const isIds = (value: unknown): value is number[] => isListOf(value, isId);

/** One issue for the whole prompt, however many of its ids are invalid. */
const prompt = z.custom<string | number[] | string[] | number[][]>(
  (value) => isText(value) || isIds(value) || isListOf(value, isText) || isListOf(value, isIds),
  'give a text, token ids, or a list of one kind',
);

const completionSchema = z.strictObject({
  ...common,
  prompt,
  /** Asks for the sampled tokens' log-probabilities, and those of this many most likely tokens at each position. */
  logprobs: alternatives.nullish(),
  best_of: neutral(1),
  echo: neutral(false),
  suffix: z.literal('').nullish(),
});

const textPart = z.object({ type: z.literal('text'), text: z.string() });
const content = z
  .union([z.string(), z.array(textPart)])
  .nullish()
  .transform((value) => (typeof value === 'string' ? value : (value ?? []).map(({ text }) => text).join('')));
const call = z.object({ id: z.string().nullish(), function: z.object({ name: z.string(), arguments: z.string() }) });
const message = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'developer', 'user']), content }),
  z.object({ role: z.literal('assistant'), content, tool_calls: z.array(call).nullish() }),
  z.object({ role: z.literal('tool'), content, tool_call_id: z.string().nullish() }),
]);
const tool = z.object({
  type: z.literal('function'),
  function: z.object({
    name: z.string(),
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

const chatSchema = z
  .strictObject({
    ...common,
    messages: z.array(message).min(1),
    tools: z
      .array(tool)
      .nullish()
      .transform((tools) => tools ?? []),
    tool_choice: z.enum(['auto', 'none']).nullish(),
    parallel_tool_calls: neutral(true),
    max_completion_tokens: count.nullish(),
    logprobs: z
      .boolean()
      .nullish()
      .transform((value) => value ?? false),
    top_logprobs: alternatives.nullish().transform((value) => value ?? 0),
    response_format: z.strictObject({ type: z.literal('text') }).nullish(),
  })
  .superRefine(({ logprobs, top_logprobs: top }, context) => {
    if (top > 0 && !logprobs)
      context.addIssue({ code: 'custom', path: ['top_logprobs'], message: 'give logprobs: true too' });
  });

export type CompletionRequest = z.output<typeof completionSchema>;
export type ChatRequest = z.output<typeof chatSchema>;

/** The engine's sampling parameters for a request. */
export function samplingOf({
  temperature,
  top_p: topP,
  top_k: topK,
  min_p: minP,
  repetition_penalty: repetitionPenalty,
}: Pick<CompletionRequest, 'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repetition_penalty'>): Omit<
  SamplingParameters,
  'maxTokens'
> {
  return { temperature, topP, topK, minP, repetitionPenalty };
}

/** Errors: `ApiError` 400 that names the first wrong field. */
function readAs<T>(schema: z.ZodType<T>, body: unknown): T {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  const param = [...(issue?.path ?? []), ...(unknown === undefined ? [] : [unknown])].join('.');
  const why = unknown === undefined ? (issue?.message ?? 'it cannot be read') : 'this server has no such field';
  throw new ApiError(400, `${param || 'the body'}: ${why}`, param === '' ? {} : { param });
}

/** `body`: the result of `readWritten`. Errors: `ApiError`. */
export const readCompletion = (body: unknown): CompletionRequest => readAs(completionSchema, plainOf(body));

/** `body`: the result of `readWritten`, so that numbers in tool schemas keep their notation. Errors: `ApiError`. */
export function readChatCompletion(body: unknown): ChatRequest {
  const request = readAs(chatSchema, plainOf(body));
  const given = (memberOf(body, 'tools') ?? []) as readonly unknown[];
  const parametersOf = (tool: unknown) =>
    (memberOf(memberOf(tool, 'function'), 'parameters') ?? {}) as Record<string, unknown>;
  const tools = request.tools.map((one, i) => ({
    ...one,
    function: { ...one.function, parameters: parametersOf(given[i]) },
  }));
  return { ...request, tools };
}
