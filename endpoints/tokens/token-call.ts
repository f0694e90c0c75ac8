/** A call in token ids, as every protocol takes it and gives it back: what was sampled is told by id, never by text. */

import { z } from 'zod';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { EndpointError } from '../endpoint-error.ts';

export interface TokenCall {
  readonly tokens: readonly number[];
  readonly sampling: SamplingParameters;
  readonly stopTokenIds: readonly number[];
  /** From the noise key: the server's own noise, as far as it takes a seed. */
  readonly seed: number;
}

export interface TokenAnswer {
  readonly tokens: readonly number[];
  /** As long as `tokens`, nats; `null` where the server left some out. */
  readonly logprobs: readonly number[] | null;
  readonly finish: 'stop' | 'length' | 'filtered';
}

/** One server's dialect: how the call is written, and how its answer is read. */
export interface TokenDialect {
  /** Relative to the server (`native`) or to OpenAI's base address. */
  readonly path: string;
  readonly native: boolean;
  request(model: string, call: TokenCall): Readonly<Record<string, unknown>>;
  /** Errors: `EndpointError` of kind `protocol`, `retokenised`, `context-full`, `unavailable`. */
  read(body: unknown, call: TokenCall): TokenAnswer;
  /** Whether log-probabilities are at the sampling temperature; else they are at temperature 1. */
  readonly logprobsAtTemperature: boolean;
}

export const id = z.int().min(0);

/** A call's sampling as vLLM and SGLang both name it: what Longhaul does not set is off, whatever the model's own defaults are. */
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

/** Errors: `EndpointError` of kind `protocol` that names the field. */
export function readAs<T>(schema: z.ZodType<T>, body: unknown, what: string): T {
  const read = schema.safeParse(body);
  if (read.success) return read.data;
  const issue = read.error.issues[0];
  throw new EndpointError(
    'protocol',
    `${what} lacks ${issue?.path.join('.') || 'its fields'}: ${issue?.message ?? 'unreadable'}`,
  );
}

/** A server that tokenises the prompt again answers another question than the one that is put on record. */
export function checkPromptIds(
  sent: readonly number[],
  seen: readonly number[] | undefined,
  count: number | undefined,
): void {
  if (seen && (seen.length !== sent.length || seen.some((one, i) => one !== sent[i]))) {
    const at = seen.findIndex((one, i) => one !== sent[i]);
    throw new EndpointError(
      'retokenised',
      `the server saw other prompt ids than were sent (${seen.length} for ${sent.length}, first difference at ${at < 0 ? seen.length : at})`,
    );
  }
  if (seen || count === sent.length) return;
  const saw =
    count === undefined
      ? 'does not say what prompt it saw'
      : `saw ${count} prompt tokens where ${sent.length} were sent`;
  throw new EndpointError(count === undefined ? 'protocol' : 'retokenised', `the server ${saw}`);
}

/** Log-probabilities of all tokens, or `null`: those of a part would be misread as those of other tokens. */
export function wholeLogprobs(
  tokens: readonly number[],
  logprobs: ReadonlyArray<number | null | undefined> | null | undefined,
): number[] | null {
  const numbers = (logprobs ?? []).filter(
    (value): value is number => typeof value === 'number' && Number.isFinite(value),
  );
  return numbers.length === tokens.length && logprobs?.length === tokens.length ? numbers : null;
}
