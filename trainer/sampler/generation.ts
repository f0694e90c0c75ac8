/** A running `generate` call: its tokens so far, and the conditions that end it. */

import type { GenerateRequest, GenerateResult, PromptLogprob, TokenLogprob } from '../generate-request.ts';
import { noiseOf } from './noise.ts';
import type { Draw, Drawn } from './pass/decoder.ts';
import { rankTokens, sampleToken } from './sample-token.ts';
import { StopTexts } from './stop-texts.ts';
import { ORDINARY } from './urgency.ts';

/** A request that the engine can never serve. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest';
  readonly field: string;
  readonly value: unknown;
  readonly remedy: string;
  constructor(field: string, value: unknown, remedy: string) {
    super(`generate: ${field} = ${JSON.stringify(value) ?? 'undefined'}: ${remedy}`);
    this.field = field;
    this.value = value;
    this.remedy = remedy;
  }
}

/** The prompt fills the context: no token can be sampled. */
export class ContextTooLong extends Error {
  override readonly name = 'ContextTooLong';
  readonly tokens: number;
  readonly limit: number;
  constructor(tokens: number, limit: number, bound: string) {
    super(`the prompt has ${tokens} tokens, and the context ${limit} (${bound}): there is no room for an answer`);
    this.tokens = tokens;
    this.limit = limit;
  }
}

export interface Limits {
  /** The longest context: prompt and sampled tokens together. */
  readonly positions: number;
  /** Why it is not longer. */
  readonly bound: string;
  readonly modelVocabulary: number;
  /** Ids from this one on are padding of the vocabulary and never sampled. */
  readonly vocabulary: number;
  /** Left out if the policy has no tokenizer. */
  readonly decode?: ((ids: readonly number[]) => string) | undefined;
}

/** The lowest temperature above 0: logits are multiplied by its inverse, and an update divides by it in float32. */
const coldest = 1e-30;

/** At most so many alternatives are reported for each token. */
const mostLogprobs = 64;

const isCount = (value: number, least: number): boolean => Number.isSafeInteger(value) && value >= least;

function check(request: GenerateRequest, limits: Limits): void {
  const { temperature, topP, topK, minP = 0, repetitionPenalty = 1, stop = [], maxTokens } = request.sampling;
  const fail = (field: string, value: unknown, remedy: string): never => {
    throw new InvalidRequest(field, value, remedy);
  };
  if (!(temperature === 0 || (temperature >= coldest && Number.isFinite(temperature))))
    fail('sampling.temperature', temperature, `0 (greedy), or a number >= ${coldest}, is needed`);
  if (!(topP > 0 && topP <= 1)) fail('sampling.topP', topP, 'a number in (0, 1] is needed');
  if (!isCount(topK, 0)) fail('sampling.topK', topK, 'a whole number >= 0 is needed (0 is off)');
  if (!(minP >= 0 && minP <= 1)) fail('sampling.minP', minP, 'a number from 0 (off) to 1 is needed');
  if (!(repetitionPenalty > 0 && Number.isFinite(repetitionPenalty)))
    fail('sampling.repetitionPenalty', repetitionPenalty, 'a positive number is needed (1 is off)');
  if (stop.includes('')) fail('sampling.stop', stop, 'each text must have at least one character');
  if (stop.length > 0 && limits.decode === undefined)
    fail('sampling.stop', stop, 'stop texts need a tokenizer.json, which this policy lacks');
  const { topLogprobs = 0, priority = ORDINARY } = request;
  if (!isCount(priority, 1)) fail('priority', priority, 'a whole number >= 1 is needed (1 is first)');
  if (!isCount(topLogprobs, 0) || topLogprobs > mostLogprobs)
    fail('topLogprobs', topLogprobs, `a whole number from 0 to ${mostLogprobs} is needed`);
  if (!isCount(maxTokens, 1)) fail('sampling.maxTokens', maxTokens, 'a whole number >= 1 is needed');
  if (request.tokens.length === 0) fail('tokens', [], 'at least one token is needed');
  const bad = request.tokens.find((id) => !isCount(id, 0) || id >= limits.modelVocabulary);
  if (bad !== undefined) fail('tokens', bad, `ids from 0 to ${limits.modelVocabulary - 1} are needed`);
  if (request.tokens.length >= limits.positions)
    throw new ContextTooLong(request.tokens.length, limits.positions, limits.bound);
  const most = limits.positions - request.tokens.length;
  if (request.mustFit === true && maxTokens > most)
    fail(
      'sampling.maxTokens',
      maxTokens,
      `at most ${most} fit after ${request.tokens.length} prompt tokens: the context has ${limits.positions} ` +
        `(${limits.bound})`,
    );
}

export interface NextToken {
  readonly token: number;
  /** The result of the whole generation if this was its last token. */
  readonly result: GenerateResult | undefined;
}

export class Generation {
  readonly request: GenerateRequest;
  readonly #limits: Limits;
  readonly #noise: (position: number) => number;
  readonly #stops: ReadonlySet<number>;
  readonly #tokens: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #top: TokenLogprob[][] = [];
  readonly #prompt: Array<PromptLogprob | null> = [null];
  readonly #texts: StopTexts | undefined;

  /** Errors: `InvalidRequest`, `ContextTooLong`. */
  constructor(request: GenerateRequest, limits: Limits) {
    check(request, limits);
    this.request = request;
    this.#limits = limits;
    this.#noise = noiseOf(request.noiseKey);
    this.#stops = new Set(request.stopTokenIds);
    const { stop = [] } = request.sampling;
    this.#texts = limits.decode === undefined || stop.length === 0 ? undefined : new StopTexts(stop, limits.decode);
  }

  /** True if prompt log-probabilities are requested, and `position` is in the prompt. */
  inPrompt(position: number): boolean {
    return this.request.promptLogprobs === true && position < this.request.tokens.length;
  }

  /** Records the log-probability of the prompt's token at `position`, by the logits before it. */
  addPrompt(position: number, logits: Float32Array): void {
    const token = this.request.tokens[position];
    if (token === undefined) return;
    this.#prompt.push({ token, ...rankTokens(logits, this.#temperature, token, this.request.topLogprobs ?? 0) });
  }

  get #temperature(): number {
    return this.request.sampling.temperature || 1;
  }

  /** Number of positions that it takes at most. */
  get longest(): number {
    return Math.min(this.request.tokens.length + this.request.sampling.maxTokens, this.#limits.positions);
  }

  /** The draw of the next token without its logits; `undefined` if filters, a penalty or alternatives need them. */
  draw(): Draw | undefined {
    const { temperature, topP, topK, minP = 0, repetitionPenalty = 1 } = this.request.sampling;
    const plain = temperature === 0 || (topP === 1 && topK === 0 && minP === 0);
    if (!plain || repetitionPenalty !== 1 || (this.request.topLogprobs ?? 0) > 0) return undefined;
    return { temperature, uniform: this.#uniform, limit: this.#limits.vocabulary };
  }

  /** Draws the next token from `logits` (`[modelVocabulary]`). Errors: `NonFiniteLogits`. */
  next(logits: Float32Array): NextToken {
    const { request } = this;
    const { repetitionPenalty = 1 } = request.sampling;
    const seen = repetitionPenalty === 1 ? [] : [...request.tokens, ...this.#tokens];
    const drawn = sampleToken(logits, this.#limits.vocabulary, request.sampling, this.#uniform, seen);
    const { topLogprobs = 0 } = request;
    if (topLogprobs > 0) this.#top.push(rankTokens(logits, this.#temperature, drawn.token, topLogprobs).top);
    return this.accept(drawn);
  }

  /** Adds a drawn token. */
  accept({ token, logprob }: Drawn): NextToken {
    const { request } = this;
    const position = this.#position;
    this.#tokens.push(token);
    this.#logprobs.push(logprob);
    const stopText = this.#stops.has(token) ? undefined : this.#texts?.endedBy(this.#tokens);
    const stopped = stopText !== undefined || this.#stops.has(token);
    const isFull = position + 1 >= this.#limits.positions;
    if (!stopped && !isFull && this.#tokens.length < request.sampling.maxTokens) return { token, result: undefined };
    return { token, result: this.#result(stopped ? 'stop' : isFull ? 'context' : 'length', stopText) };
  }

  get #position(): number {
    return this.request.tokens.length + this.#tokens.length;
  }

  get #uniform(): number {
    return this.request.sampling.temperature === 0 ? 0 : this.#noise(this.#position);
  }

  #result(finishReason: GenerateResult['finishReason'], stopText: string | undefined): GenerateResult {
    const { topLogprobs = 0, promptLogprobs = false } = this.request;
    return {
      tokens: this.#tokens,
      logprobs: this.#logprobs,
      finishReason,
      ...(stopText === undefined ? {} : { stopText }),
      ...(topLogprobs > 0 ? { topLogprobs: this.#top } : {}),
      ...(promptLogprobs ? { promptLogprobs: this.#prompt } : {}),
    };
  }
}
