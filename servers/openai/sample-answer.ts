/**
 * One answer of the served policy: sampled whole, or in pieces where somebody wants to see it grow or a stop string may
 * end it. Both give the same tokens: noise is a function of the seed and the position alone.
 */

import { randomUUID } from 'node:crypto';
import type { Engine } from '../../trainer/engine.ts';
import type { TokenLogprob } from '../../trainer/generate-request.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import { stopAt } from './text-stream.ts';

export interface ServedModel {
  readonly name: string;
  readonly engine: Engine;
  readonly policy: { readonly dir: string; readonly version: number; readonly digest?: string };
  readonly tokenizer: ServedTokenizer;
  /** Prompt and answer together. */
  readonly contextTokens: number;
}

export interface ServedTokenizer {
  decode(ids: readonly number[], options?: { readonly skipSpecialTokens?: boolean }): string;
  readonly stopTokenIds: readonly number[];
}

export interface AnswerRequest {
  readonly prompt: readonly number[];
  /** Fits the context with the prompt; `undefined`: as many as the context holds. */
  readonly sampling: Omit<SamplingParameters, 'maxTokens'> & { readonly maxTokens: number | undefined };
  /** Beside those of the tokenizer. */
  readonly stopTokenIds: readonly number[];
  readonly stops: readonly string[];
  /** So many of the likeliest tokens are told in the place of each sampled one. */
  readonly alternatives: number;
  /** Whether special tokens are left out of the text. */
  readonly skipSpecialTokens: boolean;
  /** Names the noise. */
  readonly noiseKey: string;
  /** Hears of the text so far, as it grows. */
  readonly onText?: (text: string) => void;
}

export interface Answer {
  /** The token that ended it included. */
  readonly tokens: readonly number[];
  /** At the sampling temperature, nats. */
  readonly logprobs: readonly number[];
  /** The likeliest in the place of each token, likeliest first; empty where none were asked for. */
  readonly alternatives: ReadonlyArray<readonly TokenLogprob[]>;
  /** Without the token or the string that ended it. */
  readonly text: string;
  readonly finish: 'stop' | 'length';
}

/** Tokens between two looks at the text. */
const PIECE = 8;

/** Errors: those of the engine. */
export async function sampleAnswer(model: ServedModel, request: AnswerRequest, signal: AbortSignal): Promise<Answer> {
  const { engine, policy, tokenizer, contextTokens } = model;
  const { prompt, sampling, stops, noiseKey, onText } = request;
  const wanted = sampling.maxTokens ?? contextTokens - prompt.length;
  const stopTokenIds = [...new Set([...tokenizer.stopTokenIds, ...request.stopTokenIds])];
  const textOf = (tokens: readonly number[]) =>
    tokenizer.decode(tokens, { skipSpecialTokens: request.skipSpecialTokens });
  const piece = onText || stops.length > 0 ? PIECE : wanted;
  const cacheKey = `served ${randomUUID()}`;
  const tokens: number[] = [];
  const logprobs: number[] = [];
  const alternatives: Array<readonly TokenLogprob[]> = [];
  for (;;) {
    const maxTokens = Math.min(piece, wanted - tokens.length);
    const call = {
      policy,
      cacheKey,
      noiseKey,
      stopTokenIds,
      tokens: [...prompt, ...tokens],
      sampling: { ...sampling, maxTokens },
      topLogprobs: request.alternatives,
    };
    const sampled = await engine.generate(call, signal);
    tokens.push(...sampled.tokens);
    logprobs.push(...sampled.logprobs);
    alternatives.push(...(sampled.topLogprobs ?? []));
    const stopped = sampled.finishReason === 'stop';
    const text = textOf(stopped ? tokens.slice(0, -1) : tokens);
    const at = stopAt(text, stops);
    if (at >= 0) {
      const kept = shortestWith(tokens, textOf, stops);
      return {
        tokens: tokens.slice(0, kept),
        logprobs: logprobs.slice(0, kept),
        alternatives: alternatives.slice(0, kept),
        text: text.slice(0, at),
        finish: 'stop',
      };
    }
    // Shorter than asked for: the engine's own context is full.
    if (stopped || tokens.length >= wanted || sampled.tokens.length < maxTokens)
      return { tokens, logprobs, alternatives, text, finish: stopped ? 'stop' : 'length' };
    onText?.(text);
  }
}

/** How many tokens it takes until a stop string is there. */
function shortestWith(
  tokens: readonly number[],
  textOf: (tokens: readonly number[]) => string,
  stops: readonly string[],
): number {
  const from = Math.max(1, tokens.length - PIECE);
  for (let length = from; length < tokens.length; length += 1)
    if (stopAt(textOf(tokens.slice(0, length)), stops) >= 0) return length;
  return tokens.length;
}
