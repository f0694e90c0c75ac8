/** One `generate` call while it runs: its tokens so far, and when it ends. */

import type { GenerateRequest, GenerateResult } from '../engine.ts';
import { noiseOf } from './noise.ts';
import { sampleToken } from './sample-token.ts';

/** A request that no state of the engine could serve. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest';
  readonly field: string;
  readonly value: unknown;
  constructor(field: string, value: unknown, remedy: string) {
    super(`generate: ${field} = ${JSON.stringify(value) ?? 'undefined'}: ${remedy}`);
    this.field = field;
    this.value = value;
  }
}

/** The prompt leaves no room for a token. */
export class ContextTooLong extends Error {
  override readonly name = 'ContextTooLong';
  readonly tokens: number;
  readonly limit: number;
  constructor(tokens: number, limit: number) {
    super(`a prompt of ${tokens} tokens leaves no room in a context of ${limit}`);
    this.tokens = tokens;
    this.limit = limit;
  }
}

export interface Limits {
  /** Longest context, prompt and sampled tokens together. */
  readonly positions: number;
  readonly modelVocabulary: number;
  /** Ids from here on are padding of the vocabulary and never sampled. */
  readonly vocabulary: number;
}

const isCount = (value: number, least: number): boolean => Number.isSafeInteger(value) && value >= least;

function check(request: GenerateRequest, limits: Limits): void {
  const { temperature, topP, topK, maxTokens } = request.sampling;
  const fail = (field: string, value: unknown, remedy: string): never => {
    throw new InvalidRequest(field, value, remedy);
  };
  if (!(temperature >= 0 && Number.isFinite(temperature)))
    fail('sampling.temperature', temperature, 'a number >= 0 is needed');
  if (!(topP > 0 && topP <= 1)) fail('sampling.topP', topP, 'a number in (0, 1] is needed');
  if (!isCount(topK, 0)) fail('sampling.topK', topK, 'a whole number >= 0 is needed (0 is off)');
  if (!isCount(maxTokens, 1)) fail('sampling.maxTokens', maxTokens, 'a whole number >= 1 is needed');
  if (request.tokens.length === 0) fail('tokens', [], 'at least one token is needed');
  const bad = request.tokens.find((id) => !isCount(id, 0) || id >= limits.modelVocabulary);
  if (bad !== undefined) fail('tokens', bad, `ids from 0 to ${limits.modelVocabulary - 1} are needed`);
  if (request.tokens.length >= limits.positions) throw new ContextTooLong(request.tokens.length, limits.positions);
}

export class Generation {
  readonly request: GenerateRequest;
  readonly #limits: Limits;
  readonly #noise: (position: number) => number;
  readonly #stops: ReadonlySet<number>;
  readonly #tokens: number[] = [];
  readonly #logprobs: number[] = [];

  /** Errors: `InvalidRequest`, `ContextTooLong`. */
  constructor(request: GenerateRequest, limits: Limits) {
    check(request, limits);
    this.request = request;
    this.#limits = limits;
    this.#noise = noiseOf(request.noiseKey);
    this.#stops = new Set(request.stopTokenIds);
  }

  /** Draws the next token from `logits` (`[modelVocabulary]`). Errors: `NonFiniteLogits`. */
  next(logits: Float32Array): { readonly token: number; readonly result: GenerateResult | undefined } {
    const { request } = this;
    const position = request.tokens.length + this.#tokens.length;
    const uniform = request.sampling.temperature === 0 ? 0 : this.#noise(position);
    const { token, logprob } = sampleToken(logits, this.#limits.vocabulary, request.sampling, uniform);
    this.#tokens.push(token);
    this.#logprobs.push(logprob);
    const stopped = this.#stops.has(token);
    const ended =
      stopped || this.#tokens.length >= request.sampling.maxTokens || position + 1 >= this.#limits.positions;
    if (!ended) return { token, result: undefined };
    return {
      token,
      result: { tokens: this.#tokens, logprobs: this.#logprobs, finishReason: stopped ? 'stop' : 'length' },
    };
  }
}
