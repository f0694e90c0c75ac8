/**
 * Fields that several APIs share, and how a request that does not fit its schema is refused: by the first wrong field.
 */

import { z } from 'zod';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { memberOf } from '../../protocol/written-json.ts';
import { ApiError } from '../http/api-error.ts';

export const count = z.int().min(1);

/** A field that is accepted only with the value of its default behaviour. */
export const neutral = <T extends z.core.util.Literal>(value: T) => z.literal(value).nullish();

/** A field that never changes the answer. */
export const harmless = z.unknown().optional();

/** It changes no answer: the policy thinks as it was trained to. Any word, since both companies add some. */
export const effort = z
  .string()
  .regex(/^[a-z]{1,32}$/, 'give a word such as low')
  .nullish();
/** It changes no answer. */
export const verbosity = z.enum(['low', 'medium', 'high']).nullish();

/** OpenAI's bounds. */
const [MOST_PAIRS, MOST_KEY, MOST_VALUE] = [16, 64, 512];
/** It changes no answer. */
export const metadata = z
  .record(z.string(), z.string('give a text').max(MOST_VALUE, `give at most ${MOST_VALUE} characters`))
  .superRefine((pairs, context) => {
    const names = Object.keys(pairs);
    if (names.length > MOST_PAIRS) context.addIssue({ code: 'custom', message: `give at most ${MOST_PAIRS} pairs` });
    const long = names.find(({ length }) => length > MOST_KEY)?.slice(0, 2 * MOST_KEY);
    const message = `a key may have at most ${MOST_KEY} characters`;
    if (long !== undefined) context.addIssue({ code: 'custom', path: [long], message });
  })
  .nullish();

export const flag = (otherwise: boolean) =>
  z
    .boolean()
    .nullish()
    .transform((value) => value ?? otherwise);

/** The smallest values by which the engine's float32 can divide logits. */
const [COLDEST, LEAST_PENALTY] = [1e-30, 0.01];

/** A text that ends the answer. It is looked for in each piece of a growing answer, so its length is bounded. */
export const stopText = z.string().min(1).max(1000);

/** vLLM's `max_logprobs`. */
export const alternatives = z.int().min(0).max(20);

/** OpenAI's and Anthropic's fields, and vLLM's. */
export const samplingFields = {
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
  seed: z.int().nullish(),
};

interface SamplingFields {
  readonly temperature: number;
  readonly top_p: number;
  readonly top_k: number;
  readonly min_p: number;
  readonly repetition_penalty: number;
}

/** The engine's sampling parameters for a request. */
export function samplingOf({
  temperature,
  top_p: topP,
  top_k: topK,
  min_p: minP,
  repetition_penalty: repetitionPenalty,
}: SamplingFields): Omit<SamplingParameters, 'maxTokens'> {
  return { temperature, topP, topK, minP, repetitionPenalty };
}

/** A list that may be written as one text: `type` is the text's kind of part. */
export const textOrParts = <T extends z.ZodType>(part: T, type: string) =>
  z.preprocess((value) => (typeof value === 'string' ? [{ type, text: value }] : value), z.array(part));

/** A part or item of a kind that this server does not take. The message says so, by the kind's name. */
export const unionByType = <const T extends readonly [z.core.$ZodTypeDiscriminable, ...z.core.$ZodTypeDiscriminable[]]>(
  options: T,
  what: string,
) =>
  z.discriminatedUnion('type', options, {
    error: ({ input }) => {
      const type = memberOf(input, 'type');
      if (typeof type !== 'string') return `give ${what} with a type`;
      return `this server takes no ${what} of type ${JSON.stringify(type.slice(0, 80))}`;
    },
  });

/** Errors: `ApiError` 400 that names the first wrong field. */
export function readAs<T>(schema: z.ZodType<T>, body: unknown): T {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  const param = [...(issue?.path ?? []), ...(unknown === undefined ? [] : [unknown])].join('.');
  const why = unknown === undefined ? (issue?.message ?? 'it cannot be read') : 'this server has no such field';
  throw new ApiError(400, `${param || 'the body'}: ${why}`, param === '' ? {} : { param });
}

/** Errors: `ApiError` 400 for the field at `param`. */
export function refuse(param: string, why: string): never {
  throw new ApiError(400, `${param}: ${why}`, { param });
}
