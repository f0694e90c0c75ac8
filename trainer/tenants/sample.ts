/**
 * Samples of the Tinker API by an engine: a function of base, adapter, request and noise key. Neither other requests
 * nor their order changes a result.
 */

import { UserInputError } from '../../protocol/user-input-error.ts';
import type { TinkerSample, TinkerSampleResult } from '../../protocol/tinker.ts';
import { MadeOfFiles } from '../checkpoints/policy-files.ts';
import type { Engine } from '../engine.ts';
import type { AdapterName, GenerateRequest, GenerateResult, PolicyName, TokenLogprob } from '../generate-request.ts';
import { readStopTokens } from '../tokenizer/load-tokenizer.ts';

/** The field of the Tinker API behind a field of the engine's request. */
const FIELDS: Readonly<Record<string, string>> = {
  tokens: 'prompt',
  topLogprobs: 'topk_prompt_logprobs or topk_sample_logprobs',
  'sampling.temperature': 'sampling_params.temperature',
  'sampling.topP': 'sampling_params.top_p',
  'sampling.topK': 'sampling_params.top_k',
  'sampling.stop': 'sampling_params.stop',
  'sampling.maxTokens': 'sampling_params.max_tokens',
};

/** As Tinker's own server says it. */
const TOO_LONG = "Prompt length plus max_tokens exceeds the model's context window";

/** The tokens that end an answer of the policies in the last directories. */
const endTokens = new MadeOfFiles<readonly number[]>(readStopTokens, 16);

function check({ count, seed }: TinkerSample): void {
  if (!Number.isSafeInteger(count) || count < 1)
    throw new UserInputError('num_samples', count, 'give a whole number >= 1');
  if (!Number.isSafeInteger(seed)) throw new UserInputError('sampling_params.seed', seed, 'give a whole number');
}

const areTexts = (stop: readonly number[] | readonly string[]): stop is readonly string[] =>
  stop.length > 0 && stop.every((one) => typeof one === 'string');

async function stopsOf(
  { stop }: TinkerSample,
  dir: string,
): Promise<{ ids: readonly number[]; texts: readonly string[] }> {
  if (stop === undefined) return { ids: await endTokens.of(dir), texts: [] };
  if (areTexts(stop)) return { ids: [], texts: stop };
  const ids = (stop as readonly unknown[]).map((id) => {
    if (!Number.isSafeInteger(id)) throw new UserInputError('sampling_params.stop', stop, 'give token ids, or texts');
    return Number(id);
  });
  return { ids, texts: [] };
}

/** An error of the engine as the user's, if it is: errors of another thread have their class's name alone. */
function usersError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { field, value, remedy, tokens } = error as Error & Readonly<Record<string, unknown>>;
  if (error.name === 'ContextTooLong')
    return new UserInputError('prompt', tokens, `${TOO_LONG}: ${error.message}`, { cause: error });
  if (error.name !== 'InvalidRequest' || typeof field !== 'string') return error;
  const told = field === 'sampling.maxTokens' && Number(value) >= 1 ? `${TOO_LONG}: ` : '';
  return new UserInputError(FIELDS[field] ?? field, value, `${told}${String(remedy)}`, { cause: error });
}

type Top = ReadonlyArray<ReadonlyArray<{ readonly token: number; readonly logprob: number }>>;

const cut = (lists: ReadonlyArray<readonly TokenLogprob[]>, count: number): Top =>
  lists.map((list) => list.slice(0, count));

function sequenceOf(
  { tokens, logprobs, finishReason, topLogprobs = [] }: GenerateResult,
  { topSampled, maxTokens }: TinkerSample,
): TinkerSampleResult['sequences'][number] {
  // An answer that fills the context with its last token has all of its tokens.
  if (finishReason === 'context' && tokens.length < maxTokens)
    throw new Error(`the engine sampled ${tokens.length} of ${maxTokens} tokens, and filled its context`);
  return {
    tokens: Int32Array.from(tokens),
    logprobs: Float32Array.from(logprobs),
    finish: finishReason === 'stop' ? 'stop' : 'length',
    ...(topSampled > 0 ? { top: cut(topLogprobs, topSampled) } : {}),
  };
}

function promptOf(
  { promptLogprobs = [] }: GenerateResult,
  { promptLogprobs: wanted, topPrompt }: TinkerSample,
): Omit<TinkerSampleResult, 'sequences'> {
  return {
    ...(wanted ? { promptLogprobs: Float32Array.from(promptLogprobs, (one) => one?.logprob ?? Number.NaN) } : {}),
    ...(topPrompt > 0
      ? {
          topPrompt: cut(
            promptLogprobs.map((one) => one?.top ?? []),
            topPrompt,
          ),
        }
      : {}),
  };
}

/**
 * `sample.count` answers of the base with the adapter. Sample i has noise of its own, made of `noiseKey`, `sample.seed`
 * and i; the prompt is computed once. The log-probability of a sampled token is that of the distribution that it was
 * drawn from: at the sampling temperature (1 when greedy), before `topP` and `topK`. So it is the q of an importance
 * ratio at any temperature. The log-probability of a prompt token, which was not drawn, is the policy's: at temperature
 * 1. Errors: `UserInputError`; those of loading base and adapter; `NonFiniteLogits`; the signal's reason.
 */
export async function sampleFor(
  engine: Pick<Engine, 'generate'>,
  base: PolicyName,
  adapter: AdapterName | undefined,
  sample: TinkerSample,
  noiseKey: string,
  signal?: AbortSignal,
): Promise<TinkerSampleResult> {
  check(sample);
  const { ids, texts } = await stopsOf(sample, base.dir);
  const { temperature, topP, topK, maxTokens, topSampled, topPrompt } = sample;
  const policy = adapter === undefined ? base : { ...base, adapter };
  // One for all: a long prompt times a thousand samples would be gigabytes.
  const prompt = [...sample.prompt];
  const request = (i: number): GenerateRequest => ({
    policy,
    // One for all: the engine waits longer for company when many rollouts have sampled lately.
    cacheKey: noiseKey,
    tokens: prompt,
    sampling: { temperature, topP, topK, maxTokens, stop: texts },
    stopTokenIds: ids,
    noiseKey: `${noiseKey} seed ${sample.seed} sample ${i}`,
    topLogprobs: topSampled,
    mustFit: true,
  });
  const isScored = sample.promptLogprobs || topPrompt > 0;
  const scoring = { promptLogprobs: true, topLogprobs: Math.max(topPrompt, topSampled) };
  // Scores are at the temperature of their request.
  const isSeparate = isScored && temperature !== 0 && temperature !== 1;
  const requests = Array.from({ length: sample.count }, (_, i) =>
    i === 0 && isScored && !isSeparate ? { ...request(i), ...scoring } : request(i),
  );
  const score = { temperature: 0, topP: 1, topK: 0, maxTokens: 1 };
  if (isSeparate) requests.push({ ...request(sample.count), ...scoring, sampling: score });
  const results = await allOrNone(engine, requests, signal);
  const scored = results[isSeparate ? sample.count : 0];
  return {
    sequences: results.slice(0, sample.count).map((result) => sequenceOf(result, sample)),
    ...(isScored && scored !== undefined ? promptOf(scored, sample) : {}),
  };
}

/** The results of all requests. When one fails, the others are cancelled. */
async function allOrNone(
  engine: Pick<Engine, 'generate'>,
  requests: readonly GenerateRequest[],
  signal: AbortSignal | undefined,
): Promise<GenerateResult[]> {
  const failed = new AbortController();
  const either = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  try {
    return await Promise.all(requests.map((one) => engine.generate(one, either)));
  } catch (error) {
    failed.abort(error);
    throw usersError(error);
  }
}
