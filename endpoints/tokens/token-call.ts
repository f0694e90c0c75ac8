/** A call in token ids, common to all protocols. Sampled tokens are returned as ids, never as text. */

import { z } from 'zod';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { EndpointError } from '../endpoint-error.ts';

export interface TokenCall {
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
  /** Derived from the noise key. It determines the server's noise, if the server accepts a seed. */
  readonly seed: number;
}

export interface TokenAnswer {
  readonly tokens: readonly number[];
  /** One per token, in nats; `null` if the server left some out. */
  readonly logprobs: readonly number[] | null;
  readonly finish: 'stop' | 'length' | 'filtered';
}

/** One server's dialect: it encodes calls and parses answers. */
export interface TokenDialect {
  /** Relative to the server if `native`, else to OpenAI's base address. */
  readonly path: string;
  readonly native: boolean;
  request(model: string, call: TokenCall): Readonly<Record<string, unknown>>;
  /** Errors: `EndpointError` of kind `malformed`, `protocol`, `retokenised`, `context`, `unavailable`. */
  read(body: unknown, call: TokenCall): TokenAnswer;
  /** True: log-probabilities are at the sampling temperature. False: at temperature 1. */
  readonly logprobsAtTemperature: boolean;
}

export const id = z.int().min(0);

/**
 * A call's sampling, in the fields that vLLM and SGLang share. Everything that Longhaul does not set is switched off,
 * against the model's defaults.
 */
export const sharedSampling = ({ sampling, stopTokenIds }: TokenCall) => ({
  temperature: sampling.temperature,
  top_p: sampling.topP,
  top_k: sampling.topK > 0 ? sampling.topK : -1,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  stop_token_ids: stopTokenIds,
  skip_special_tokens: false,
});

/** Errors: `EndpointError` of kind `malformed`, with the name of the field. */
export function readAs<T>(schema: z.ZodType<T>, body: unknown, what: string): T {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const issue = read.error.issues[0];
  throw new EndpointError(
    'malformed',
    `${what} that the server sent is wrong at ${issue?.path.join('.') || 'its top'}: ${issue?.message ?? 'unreadable'}`,
  );
}

/**
 * Checks that the server used the ids that were sent. If it tokenises again, its answer belongs to another prompt than
 * the recorded one.
 */
export function checkPromptIds(
  sent: readonly number[],
  seen: readonly number[] | undefined,
  count: number | undefined,
): void {
  if (seen && (seen.length !== sent.length || seen.some((one, i) => one !== sent[i]))) {
    const at = seen.findIndex((one, i) => one !== sent[i]);
    throw new EndpointError(
      'retokenised',
      `the server used other prompt ids than were sent (${seen.length} instead of ${sent.length}, ` +
        `first difference at ${at < 0 ? seen.length : at})`,
    );
  }
  if (seen || count === sent.length) return;
  const saw =
    count === undefined
      ? 'does not report the prompt that it used'
      : `used ${count} prompt tokens, but ${sent.length} were sent`;
  throw new EndpointError(count === undefined ? 'protocol' : 'retokenised', `the server ${saw}`);
}

/** Log-probabilities of all tokens, else `null`: an incomplete list would be assigned to the wrong tokens. */
export function wholeLogprobs(
  tokens: readonly number[],
  logprobs: ReadonlyArray<number | null | undefined> | null | undefined,
): number[] | null {
  const numbers = (logprobs ?? []).filter(
    (value): value is number => typeof value === 'number' && Number.isFinite(value),
  );
  return numbers.length === tokens.length && logprobs?.length === tokens.length ? numbers : null;
}
