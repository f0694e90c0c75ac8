/**
 * A pass request, checked: lengths, ids, what its loss needs, and finite numbers. What has an effect nowhere is refused
 * by name. The older JSON form is read into the same request.
 */

import type { z } from 'zod';
import { type PassRequest, joinTokens, onlyText, type WireDatum } from '../../endpoints/tinker/wire/pass-request.ts';
import { denseTensor, densify, SparseBudget, type WireTensor } from '../../endpoints/tinker/wire/tensor.ts';
import type { modelInput, passInput, tensorData } from '../../endpoints/tinker/wire/bodies.ts';
import { TINKER_LOSSES, type TinkerDatum, type TinkerLoss, type TinkerPass } from '../../protocol/tinker.ts';
import { ApiError } from '../http/api-error.ts';
import { quoted, type ServedBase } from './service.ts';

const refuse = (message: string): never => {
  throw new ApiError(400, message);
};

/** Errors: `ApiError` 400 for an id that the model does not have. */
export function checkTokens(ids: ArrayLike<number>, { vocabSize }: ServedBase, field: string): Int32Array {
  for (let i = 0; i < ids.length; i += 1) {
    const id = ids[i] ?? -1;
    if (!Number.isInteger(id) || id < 0 || id >= vocabSize)
      refuse(`${field}[${i}]: ${id} is no token; give ids from 0 to ${vocabSize - 1}`);
  }
  return ids instanceof Int32Array ? ids : Int32Array.from(ids);
}

/** Tokens of a prompt in JSON. Errors: `UserInputError` for images; `ApiError` 400. */
export function readTokens({ chunks }: z.output<typeof modelInput>, base: ServedBase, field: string): Int32Array {
  return joinTokens(
    chunks.map(({ type, tokens }, i) => {
      if (type !== 'encoded_text' || tokens === undefined) throw onlyText(type, `${field}.chunks[${i}]`);
      return checkTokens(tokens, base, `${field}.chunks[${i}].tokens`);
    }),
  );
}

function tensorOf(tensor: z.output<typeof tensorData>, field: string, budget: SparseBudget): WireTensor {
  const { dtype, shape = [], sparse_crow_indices: crow, sparse_col_indices: col } = tensor;
  const values = dtype === 'float32' ? Float32Array.from(tensor.data) : Float64Array.from(tensor.data);
  if (dtype === 'int64' && !values.every(Number.isSafeInteger)) refuse(`${field}: give integers for int64`);
  if (crow === undefined || col === undefined) return denseTensor(values, dtype, shape, field);
  return densify({ values, crow, col }, dtype, shape, field, budget);
}

/** The JSON form of a pass. Errors: `UserInputError`; `ApiError` 400. */
export function passOfJson(
  input: z.output<typeof passInput>,
  base: ServedBase,
  rest: Pick<PassRequest, 'modelId' | 'seq' | 'forwardOnly'>,
): PassRequest {
  const budget = new SparseBudget();
  const data = input.data.map(({ model_input, loss_fn_inputs }, i): WireDatum => ({
    tokens: readTokens(model_input, base, `data[${i}].model_input`),
    inputs: Object.fromEntries(
      Object.entries(loss_fn_inputs).map(([name, tensor]) => [
        name,
        tensorOf(tensor, `data[${i}].loss_fn_inputs.${name}`, budget),
      ]),
    ),
  }));
  return { ...rest, data, loss: input.loss_fn, config: input.loss_fn_config ?? {} };
}

/** The inputs of each loss; all but the weights must be there. */
const INPUTS: Readonly<Record<TinkerLoss, readonly string[]>> = {
  cross_entropy: ['target_tokens', 'weights'],
  importance_sampling: ['target_tokens', 'logprobs', 'advantages'],
  ppo: ['target_tokens', 'logprobs', 'advantages'],
  cispo: ['target_tokens', 'logprobs', 'advantages'],
  dro: ['target_tokens', 'logprobs', 'advantages'],
  gspo: ['target_tokens', 'logprobs', 'advantages', 'sequence_ratio_mask'],
};
/** With `cross_entropy` they mean nothing: data for another loss are scored by it. */
const SCORED_ALONG = new Set(['logprobs', 'advantages', 'sequence_ratio_mask']);
const CLIPS = ['clip_low_threshold', 'clip_high_threshold'];
const SETTINGS: Readonly<Record<TinkerLoss, readonly string[]>> = {
  cross_entropy: [],
  importance_sampling: [],
  ppo: CLIPS,
  cispo: CLIPS,
  dro: ['beta'],
  gspo: CLIPS,
};

/** Losses that the SDK names and that cannot be here, with why. */
const NOT_HERE: Readonly<Record<string, string>> = {
  stable_reinforce: 'its formula is not published, so nothing here can compute it',
  custom: 'custom losses run in the client here, by forward_backward_custom with a function',
};

function lossNamed(name: string): TinkerLoss {
  const loss = TINKER_LOSSES.find((known) => known === name);
  if (loss !== undefined) return loss;
  const why = Object.hasOwn(NOT_HERE, name) ? NOT_HERE[name] : undefined;
  return refuse(
    `loss_fn: ${quoted(name)} is not known here${why === undefined ? '' : ` (${why})`}; ` +
      `give ${TINKER_LOSSES.join(', ')}`,
  );
}

function configOf(loss: TinkerLoss, config: PassRequest['config']): Record<string, number> {
  const known = SETTINGS[loss];
  if (loss === 'dro' && config['beta'] === undefined)
    refuse('loss_fn_config.beta is missing; dro has no default: give a finite number of at least 0, such as 0.05');
  return Object.fromEntries(
    Object.entries(config).map(([name, value]) => {
      if (!known.includes(name))
        refuse(
          `loss_fn_config.${quoted(name)} has no effect on ${loss}; ` +
            `${known.length > 0 ? `give ${known.join(', ')}` : 'leave it out'}`,
        );
      if (typeof value !== 'number' || !Number.isFinite(value) || value < 0)
        return refuse(`loss_fn_config.${name}: ${quoted(value)} cannot be used; give a finite number of at least 0`);
      return [name, value];
    }),
  );
}

/** One number per position. A second dimension of one is dropped. */
function rowOf(tensor: WireTensor, length: number, field: string): Float32Array | Float64Array {
  const { shape, values } = tensor;
  if (shape.slice(1).some((size) => size !== 1))
    refuse(`${field}: its shape is [${shape.join(', ')}]; send one number per position ([${length}])`);
  if (values.length !== length)
    refuse(`${field}: ${values.length} values for ${length} tokens of model_input; send as many`);
  return values;
}

function numbersOf(tensor: WireTensor, length: number, field: string): Float32Array {
  const values = Float32Array.from(rowOf(tensor, length, field));
  const at = values.findIndex((value) => !Number.isFinite(value));
  if (at >= 0) refuse(`NonFiniteInTensor: ${field}[${at}] is ${values[at]}; send finite numbers`);
  return values;
}

function datumOf({ tokens, inputs }: WireDatum, loss: TinkerLoss, base: ServedBase, at: string): TinkerDatum {
  const { length } = tokens;
  if (length === 0) refuse(`${at}.model_input has no tokens; send at least one`);
  if (length > base.contextTokens)
    refuse(`${at}.model_input: ${length} tokens exceed the model's context window of ${base.contextTokens}`);
  for (const name of Object.keys(inputs))
    if (!INPUTS[loss].includes(name) && !(loss === 'cross_entropy' && SCORED_ALONG.has(name)))
      refuse(`${at}.loss_fn_inputs.${quoted(name)} has no effect on ${loss}; give ${INPUTS[loss].join(', ')}`);
  const given = (name: string): WireTensor =>
    inputs[name] ?? refuse(`${at}.loss_fn_inputs.${name} is missing; ${loss} needs it`);
  const field = (name: string) => `${at}.loss_fn_inputs.${name}`;
  const targets = checkTokens(
    rowOf(given('target_tokens'), length, field('target_tokens')),
    base,
    field('target_tokens'),
  );
  const datum = { tokens: checkTokens(tokens, base, `${at}.model_input`), targets };
  if (loss === 'cross_entropy') {
    const { weights } = inputs;
    return weights === undefined ? datum : { ...datum, weights: numbersOf(weights, length, field('weights')) };
  }
  const sampled = {
    ...datum,
    logprobs: numbersOf(given('logprobs'), length, field('logprobs')),
    advantages: numbersOf(given('advantages'), length, field('advantages')),
  };
  if (loss !== 'gspo') return sampled;
  const ratioMask = numbersOf(given('sequence_ratio_mask'), length, field('sequence_ratio_mask'));
  if (!ratioMask.some((mark) => mark !== 0))
    refuse(`${field('sequence_ratio_mask')} marks no token; send 1 for the sampled tokens of the sequence`);
  return { ...sampled, ratioMask };
}

/** Of one pass: more would hold its worker, and the other models, for long. */
const MOST_TOKENS = 2 ** 19;

/** Errors: `ApiError` 400 that names the datum and the input. */
export function readPass({ data, loss: name, config, forwardOnly }: PassRequest, base: ServedBase): TinkerPass {
  const loss = lossNamed(name);
  if (data.length === 0) refuse('data is empty; send at least one datum');
  const tokens = data.reduce((sum, datum) => sum + datum.tokens.length, 0);
  if (tokens > MOST_TOKENS)
    refuse(`data: ${tokens} tokens are too many for one pass; send at most ${MOST_TOKENS}, in several passes`);
  return {
    loss,
    config: configOf(loss, config),
    backward: !forwardOnly,
    data: data.map((datum, i) => datumOf(datum, loss, base, `data[${i}]`)),
  };
}
