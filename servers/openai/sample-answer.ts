/**
 * Samples one answer of the served policy: at once, or in pieces if the answer is streamed or has stop strings. Both
 * give the same tokens, since the noise depends only on the seed and the position.
 */

import { randomUUID } from 'node:crypto';
import type { Engine } from '../../trainer/engine.ts';
import type { PromptLogprob, TokenLogprob } from '../../trainer/generate-request.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { stopFound } from '../apis/text-stream.ts';

export interface ServedModel {
  readonly name: string;
  readonly engine: Engine;
  readonly policy: { readonly dir: string; readonly version: number; readonly digest?: string };
  readonly tokenizer: ServedTokenizer;
  /** Maximum number of tokens of prompt and answer together. */
  readonly contextTokens: number;
}

export interface ServedTokenizer {
  decode(ids: readonly number[], options?: { readonly skipSpecialTokens?: boolean }): string;
  /** The token's bytes: those of the tokens of a text are together its UTF-8. */
  bytesOf(id: number): readonly number[];
  readonly stopTokenIds: readonly number[];
}

export interface AnswerRequest {
  readonly prompt: readonly number[];
  /** `maxTokens` fits the context with the prompt; `undefined`: as many as fit. */
  readonly sampling: Omit<SamplingParameters, 'maxTokens'> & { readonly maxTokens: number | undefined };
  /** In addition to the tokenizer's stop tokens. */
  readonly stopTokenIds: readonly number[];
  readonly stops: readonly string[];
  /** Returns where a text that may grow has its end, which is part of it; `undefined` if it has none yet. */
  readonly endOf?: ((text: string) => number | undefined) | undefined;
  /** Number of most likely tokens to return for each sampled token. */
  readonly alternatives: number;
  /**
   * Number of most likely tokens to return for each token of the prompt. Absent: the prompt has no log-probabilities.
   */
  readonly promptAlternatives?: number | undefined;
  /** True to omit special tokens from the text. */
  readonly skipSpecialTokens: boolean;
  /** Seed of the noise. */
  readonly noiseKey: string;
  /** Receives the text so far, after each piece. */
  readonly onText?: (text: string) => void;
}

export interface Answer {
  /** Sampled tokens, including the token that ended the answer. */
  readonly tokens: readonly number[];
  /** Log-probabilities at the sampling temperature. In nats. */
  readonly logprobs: readonly number[];
  /** The most likely tokens at each position, most likely first; empty if none were requested. */
  readonly alternatives: ReadonlyArray<readonly TokenLogprob[]>;
  /** Text without the stop token or stop string. */
  readonly text: string;
  readonly finish: 'stop' | 'length';
  /** The stop string that ended the answer. */
  readonly stopText?: string | undefined;
  /** One per token of the prompt, if they were requested; null for the first. */
  readonly promptLogprobs?: ReadonlyArray<PromptLogprob | null> | undefined;
}

/** Where a text ends before its last token. */
interface Cut {
  readonly length: number;
  readonly stopText?: string;
}

/** Number of tokens in a piece. */
const PIECE = 8;

/** Errors: those of the engine. */
export async function sampleAnswer(model: ServedModel, request: AnswerRequest, signal: AbortSignal): Promise<Answer> {
  const { engine, policy, tokenizer, contextTokens } = model;
  const { prompt, sampling, stops, noiseKey, onText } = request;
  const wanted = sampling.maxTokens ?? contextTokens - prompt.length;
  const stopTokenIds = [...new Set([...tokenizer.stopTokenIds, ...request.stopTokenIds])];
  const textOf = (tokens: readonly number[]) =>
    tokenizer.decode(tokens, { skipSpecialTokens: request.skipSpecialTokens });
  const cutOf = (text: string): Cut | undefined => {
    const [stop, end] = [stopFound(text, stops), request.endOf?.(text)];
    if (stop !== undefined && (end === undefined || stop.at < end)) return { length: stop.at, stopText: stop.stop };
    return end === undefined ? undefined : { length: end };
  };
  const piece = onText || stops.length > 0 || request.endOf ? PIECE : wanted;
  const cacheKey = `served ${randomUUID()}`;
  const tokens: number[] = [];
  const logprobs: number[] = [];
  const alternatives: Array<readonly TokenLogprob[]> = [];
  let promptLogprobs: Answer['promptLogprobs'];
  for (;;) {
    const maxTokens = Math.min(piece, wanted - tokens.length);
    const ofPrompt = tokens.length === 0 ? request.promptAlternatives : undefined;
    const call = {
      policy,
      cacheKey,
      noiseKey,
      stopTokenIds,
      tokens: [...prompt, ...tokens],
      sampling: { ...sampling, maxTokens },
      topLogprobs: Math.max(request.alternatives, ofPrompt ?? 0),
      promptLogprobs: ofPrompt !== undefined,
    };
    const sampled = await engine.generate(call, signal);
    tokens.push(...sampled.tokens);
    logprobs.push(...sampled.logprobs);
    alternatives.push(...(sampled.topLogprobs ?? []).map((top) => top.slice(0, request.alternatives)));
    if (ofPrompt !== undefined)
      promptLogprobs = sampled.promptLogprobs?.map((one) => one && { ...one, top: one.top.slice(0, ofPrompt) });
    const stopped = sampled.finishReason === 'stop';
    const text = textOf(stopped ? tokens.slice(0, -1) : tokens);
    const cut = cutOf(text);
    if (cut !== undefined) {
      const kept = shortestWith(tokens, (some) => cutOf(textOf(some)) !== undefined);
      return {
        tokens: tokens.slice(0, kept),
        logprobs: logprobs.slice(0, kept),
        alternatives: alternatives.slice(0, kept),
        text: text.slice(0, cut.length),
        finish: 'stop',
        stopText: cut.stopText,
        promptLogprobs,
      };
    }
    if (stopped || tokens.length >= wanted || sampled.finishReason === 'context')
      return { tokens, logprobs, alternatives, text, finish: stopped ? 'stop' : 'length', promptLogprobs };
    onText?.(text);
  }
}

/** Number of tokens after which the text is first cut. */
function shortestWith(tokens: readonly number[], isCut: (tokens: readonly number[]) => boolean): number {
  const from = Math.max(1, tokens.length - PIECE);
  for (let length = from; length < tokens.length; length += 1) if (isCut(tokens.slice(0, length))) return length;
  return tokens.length;
}
