/** Refuses a pass, a step or an adapter's settings that cannot be, before anything is computed. Pure. */

import {
  type AdamParameters,
  type AdapterSettings,
  TINKER_LOSSES,
  type TinkerDatum,
  type TinkerPass,
} from '../../protocol/tinker.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { clipOf, LOSS_SETTINGS, NEEDED_SETTINGS } from './token-losses.ts';

/** What the base allows. */
export interface PassLimits {
  readonly vocabSize: number;
  readonly maxPositions: number;
}

/** More than any recipe uses; an adapter of this rank is as large as a part of its base. */
const GREATEST_RANK = 1024;
/** The least normal number of float32: what is added to a root must not be lost. */
const LEAST_NORMAL = 2 ** -126;

function checkIds(field: string, ids: Int32Array, { vocabSize }: PassLimits): void {
  const at = ids.findIndex((id) => !(id >= 0 && id < vocabSize));
  if (at >= 0)
    throw new UserInputError(`${field}[${at}]`, ids[at], `give a token id of the vocabulary, 0 to ${vocabSize - 1}`);
}

/** Errors: `UserInputError` for another length, or a number that is not finite. */
function checkNumbers(field: string, values: Float32Array, length: number): void {
  if (values.length !== length)
    throw new UserInputError(field, values.length, `give as many numbers as the datum has tokens: ${length}`);
  const at = values.findIndex((value) => !Number.isFinite(value));
  if (at >= 0) throw new UserInputError(`${field}[${at}]`, values[at], 'give a finite number');
}

/** Errors: `UserInputError` for a mask that marks no token: the ratio of no tokens is none. */
function checkRatioMask(field: string, { tokens, ratioMask }: TinkerDatum, loss: TinkerPass['loss']): void {
  if (loss !== 'gspo') {
    if (ratioMask === undefined) return;
    throw new UserInputError(field, `${ratioMask.length} numbers`, `leave it out: ${loss} has no sequence's ratio`);
  }
  if (ratioMask === undefined) throw new UserInputError(field, undefined, 'gspo needs one number per token');
  checkNumbers(field, ratioMask, tokens.length);
  if (!ratioMask.some((mark) => mark !== 0))
    throw new UserInputError(field, 'zeros alone', 'mark the sampled tokens of the sequence with 1');
}

function checkDatum(field: string, datum: TinkerDatum, { loss }: TinkerPass, limits: PassLimits): void {
  const { tokens, targets } = datum;
  if (tokens.length === 0) throw new UserInputError(`${field}.tokens`, [], 'give at least one token');
  if (tokens.length > limits.maxPositions)
    throw new UserInputError(
      `${field}.tokens`,
      `${tokens.length} tokens`,
      `give at most ${limits.maxPositions}, the model's context`,
    );
  if (targets.length !== tokens.length)
    throw new UserInputError(
      `${field}.targets`,
      `${targets.length} targets`,
      `give as many targets as the datum has tokens: ${tokens.length}`,
    );
  checkIds(`${field}.tokens`, tokens, limits);
  checkIds(`${field}.targets`, targets, limits);
  if (datum.weights !== undefined) {
    if (loss !== 'cross_entropy')
      throw new UserInputError(
        `${field}.weights`,
        `${datum.weights.length} weights`,
        `leave them out: ${loss} has no weights. Multiply the advantages`,
      );
    checkNumbers(`${field}.weights`, datum.weights, tokens.length);
  }
  if (loss === 'cross_entropy') return;
  for (const name of ['logprobs', 'advantages'] as const) {
    const values = datum[name];
    if (values === undefined)
      throw new UserInputError(`${field}.${name}`, undefined, `${loss} needs one number per token`);
    checkNumbers(`${field}.${name}`, values, tokens.length);
  }
  checkRatioMask(`${field}.ratioMask`, datum, loss);
}

function checkConfig({ loss, config }: TinkerPass): void {
  for (const [name, value] of Object.entries(config)) {
    const known = LOSS_SETTINGS[loss];
    if (!known.includes(name))
      throw new UserInputError(
        `config.${name}`,
        value,
        `remove it: ${known.length === 0 ? `${loss} has no settings` : `${loss} has ${known.join(' and ')}`}`,
      );
    if (!(Number.isFinite(value) && value >= 0))
      throw new UserInputError(`config.${name}`, value, 'give a number that is not negative');
  }
  const needed = NEEDED_SETTINGS[loss];
  if (needed !== undefined && config[needed] === undefined)
    throw new UserInputError(`config.${needed}`, undefined, `give it: ${loss} has no default, for example 0.05`);
  const { low, high } = clipOf(config);
  if (low > high)
    throw new UserInputError('config.clip_low_threshold', low, `give at most clip_high_threshold, ${high}`);
}

/**
 * Errors: `UserInputError`. Inputs that `cross_entropy` does not use (`logprobs`, `advantages`) are ignored: the SDK
 * computes custom losses with the user's own data through it.
 */
export function checkPass(pass: TinkerPass, limits: PassLimits): void {
  if (!TINKER_LOSSES.includes(pass.loss))
    throw new UserInputError('loss', pass.loss, `give one of ${TINKER_LOSSES.join(', ')}`);
  checkConfig(pass);
  if (pass.data.length === 0) throw new UserInputError('data', [], 'give at least one datum');
  for (const [i, datum] of pass.data.entries()) checkDatum(`data[${i}]`, datum, pass, limits);
}

/** Errors: `UserInputError`. */
export function checkAdam(adam: AdamParameters): void {
  const notNegative = ['learningRate', 'weightDecay', 'gradClipNorm'] as const;
  for (const name of notNegative) {
    if (!(Number.isFinite(adam[name]) && adam[name] >= 0))
      throw new UserInputError(name, adam[name], 'give a finite number, 0 or more');
  }
  for (const name of ['beta1', 'beta2'] as const) {
    if (!(adam[name] >= 0 && adam[name] < 1))
      throw new UserInputError(name, adam[name], 'give a number from 0 to below 1');
  }
  if (!(Number.isFinite(adam.eps) && adam.eps >= LEAST_NORMAL))
    throw new UserInputError('eps', adam.eps, 'give a positive number that float32 can hold, such as 1e-12');
}

/** Errors: `UserInputError`. */
export function checkSettings({ rank, alpha, seed }: AdapterSettings): void {
  if (!(Number.isInteger(rank) && rank >= 1 && rank <= GREATEST_RANK))
    throw new UserInputError('rank', rank, `give a whole number from 1 to ${GREATEST_RANK}`);
  if (!(Number.isFinite(alpha) && alpha > 0)) throw new UserInputError('alpha', alpha, 'give a positive number');
  if (!Number.isSafeInteger(seed)) throw new UserInputError('seed', seed, 'give a whole number');
}
