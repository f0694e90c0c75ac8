/**
 * A sample request, checked. A setting that has no effect here is refused by name; the seed is drawn if there is none.
 */

import type { z } from 'zod';
import { MOST_STOPS, type sampleBody, type samplingParams } from '../../endpoints/tinker/wire/bodies.ts';
import type { TinkerSample } from '../../protocol/tinker.ts';
import { ApiError } from '../http/api-error.ts';
import { checkTokens, readTokens } from './read-pass.ts';
import type { ServedBase } from './service.ts';

const MOST_SAMPLES = 1024;
const MOST_TOP = 64;
/** `num_samples` × `max_tokens` × likeliest tokens: what one result may have to hold in memory. */
const MOST_NUMBERS = 2 ** 24;
const MOST_STOP_CHARACTERS = 1000;
/** The engine's float32 holds no others. */
const [LEAST_TEMPERATURE, MOST_TEMPERATURE] = [1e-30, 10];

const refuse = (field: string, value: unknown, remedy: string): never => {
  throw new ApiError(400, `${field}: ${JSON.stringify(value) ?? 'nothing'} cannot be used; ${remedy}`);
};

function whole(field: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  return refuse(field, value, `give a whole number from ${least} to ${most}`);
}

function stopOf(stop: z.output<typeof samplingParams>['stop'], base: ServedBase): Pick<TinkerSample, 'stop'> {
  if (stop === undefined) return {};
  const list = typeof stop === 'string' ? [stop] : stop;
  whole('sampling_params.stop, its number of entries', list.length, 0, MOST_STOPS);
  const texts = list.filter((one) => typeof one === 'string');
  for (const text of texts) whole('sampling_params.stop, length of a text', text.length, 1, MOST_STOP_CHARACTERS);
  if (texts.length > 0) return { stop: texts };
  const ids = list.filter((one) => typeof one === 'number');
  return { stop: [...checkTokens(ids, base, 'sampling_params.stop')] };
}

function temperatureOf(value: number): number {
  if (value === 0 || (value >= LEAST_TEMPERATURE && value <= MOST_TEMPERATURE)) return value;
  return refuse('sampling_params.temperature', value, `give 0, or ${LEAST_TEMPERATURE} to ${MOST_TEMPERATURE}`);
}

function refuseUnsupported(body: z.output<typeof sampleBody>): void {
  const remedies: Readonly<Record<string, string>> = {
    record_stability_info:
      'leave it out, and train with a loss of a published formula: the cookbook asks for it with loss_fn ' +
      'stable_reinforce, so give loss_fn=gspo, cispo or importance_sampling',
  };
  const wanted = {
    target_prompt_logprobs: body.target_prompt_logprobs !== undefined,
    prompt_alt_tokens_k: body.prompt_alt_tokens_k !== 0,
    record_stability_info: body.record_stability_info === true,
  };
  for (const [field, isWanted] of Object.entries(wanted))
    if (isWanted) throw new ApiError(400, `${field} is not supported here; ${remedies[field] ?? 'leave it out'}`);
}

/** Errors: `ApiError` 400; `UserInputError` for prompts that are not text. */
export function readSample(body: z.output<typeof sampleBody>, base: ServedBase, drawSeed: () => number): TinkerSample {
  refuseUnsupported(body);
  const { contextTokens, vocabSize } = base;
  const { max_tokens, seed, stop, temperature, top_k, top_p } = body.sampling_params;
  const prompt = readTokens(body.prompt, base, 'prompt');
  if (prompt.length === 0) throw new ApiError(400, 'prompt has no tokens; send at least one');
  const room = contextTokens - prompt.length;
  if (max_tokens !== undefined) whole('sampling_params.max_tokens', max_tokens, 1, 2 ** 31 - 1);
  if (room < (max_tokens ?? 1))
    throw new ApiError(
      400,
      `Prompt length plus max_tokens exceeds the model's context window: ${prompt.length} + ${max_tokens ?? 1} ` +
        `> ${contextTokens}`,
    );
  if (!(top_p > 0 && top_p <= 1)) refuse('sampling_params.top_p', top_p, 'give more than 0, and at most 1');
  const lastN = body.prompt_logprobs_last_n;
  if (lastN !== undefined) whole('prompt_logprobs_last_n', lastN, 1, Math.max(1, prompt.length - 1));
  if (lastN !== undefined && body.prompt_logprobs !== true)
    refuse('prompt_logprobs_last_n', lastN, 'give prompt_logprobs with it');
  const mostTop = Math.min(MOST_TOP, vocabSize);
  const count = whole('num_samples', body.num_samples, 1, MOST_SAMPLES);
  const topSampled = whole('topk_sample_logprobs', body.topk_sample_logprobs, 0, mostTop);
  const maxTokens = max_tokens ?? room;
  const numbers = count * maxTokens * Math.max(1, topSampled);
  if (numbers > MOST_NUMBERS)
    throw new ApiError(
      400,
      `num_samples × max_tokens × topk_sample_logprobs: ${numbers} is too much for one request; ` +
        `ask for at most ${MOST_NUMBERS}, in several requests`,
    );
  return {
    prompt,
    count,
    maxTokens,
    temperature: temperatureOf(temperature),
    topP: top_p,
    topK: top_k === -1 ? 0 : whole('sampling_params.top_k', top_k, 0, 2 ** 31 - 1),
    ...stopOf(stop, base),
    seed: seed === undefined ? drawSeed() : whole('sampling_params.seed', seed, -(2 ** 53) + 1, 2 ** 53 - 1),
    promptLogprobs: body.prompt_logprobs === true,
    topPrompt: whole('topk_prompt_logprobs', body.topk_prompt_logprobs, 0, mostTop),
    topSampled,
  };
}
