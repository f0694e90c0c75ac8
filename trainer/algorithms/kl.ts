/**
 * KL to a reference policy: estimates per token, as a loss term or as a penalty on rewards, and the weight's
 * controller.
 */

import { type Values, at, countOf, eachRow, type Masked, clamp, MAX_LOG_RATIO } from './rows.ts';
import { type KlEstimator, KL_ESTIMATORS } from '../../protocol/algorithm.ts';

export interface KlEstimate {
  readonly kl: number;
  /** d kl / d logprob. */
  readonly slope: number;
}

/** k3 estimates are clamped to ±10. */
const MAX_K3 = 10;

function k3(logprob: number, reference: number): KlEstimate {
  const difference = clamp(reference - logprob, -MAX_LOG_RATIO, MAX_LOG_RATIO);
  const estimate = Math.exp(difference) - difference - 1;
  const inside = difference === reference - logprob && estimate <= MAX_K3;
  return { kl: clamp(estimate, -MAX_K3, MAX_K3), slope: inside ? 1 - Math.exp(difference) : 0 };
}

/**
 * With d = logprob − reference: k1 = d, k2 = d²/2, k3 = e^−d + d − 1 (clamped), abs = |d| (Schulman 2020,
 * "Approximating KL Divergence"; abs is a convention of trainers). k1 is unbiased. k3 is never negative, and unbiased
 * where it is not clamped. Errors: `RangeError` for an unknown estimator.
 */
export function klEstimate(kind: KlEstimator, logprob: number, reference: number): KlEstimate {
  const difference = logprob - reference;
  switch (kind) {
    case 'k1':
      return { kl: difference, slope: 1 };
    case 'k2':
      return { kl: 0.5 * difference ** 2, slope: difference };
    case 'abs':
      return { kl: Math.abs(difference), slope: Math.sign(difference) };
    case 'k3':
      return k3(logprob, reference);
    default:
      throw new RangeError(`unknown KL estimator ${String(kind)}; known: ${KL_ESTIMATORS.join(', ')}`);
  }
}

export interface KlTokens extends Masked {
  readonly logprobs: Values;
  readonly reference: Values;
}

/**
 * Each sequence's mean over the tokens that count, summed over the sequences and divided by `sequences`, the number of
 * sequences of the minibatch. The values of its micro-batches therefore add up to the mean over the minibatch. A
 * sequence without a token that counts adds 0.
 */
export function klLoss(
  tokens: KlTokens,
  kind: KlEstimator,
  sequences: number,
): { value: number; gradient: Float64Array } {
  const gradient = new Float64Array(tokens.mask.length);
  let value = 0;
  eachRow(tokens.starts, (_, from, to) => {
    const share = 1 / (Math.max(1, countOf(tokens.mask, from, to)) * sequences);
    for (let i = from; i < to; i++) {
      if (at(tokens.mask, i) === 0) continue;
      const { kl, slope } = klEstimate(kind, at(tokens.logprobs, i), at(tokens.reference, i));
      value += kl * share;
      gradient[i] = slope * share;
    }
  });
  return { value, gradient };
}

export interface PenalisedRewards {
  readonly rewards: Float64Array;
  /** Mean over sequences of each one's mean over the tokens that count. */
  readonly mean: number;
  /** Mean over sequences of each one's largest absolute estimate. */
  readonly max: number;
}

/**
 * r_t − weight · kl_t if a token counts; a weight below 0 is read as 0 (InstructGPT: Ouyang et al. 2022, eq. 2, per
 * token).
 */
export function penaliseRewards(
  tokens: KlTokens & { readonly rewards: Values },
  kind: KlEstimator,
  weight: number,
): PenalisedRewards {
  const rewards = Float64Array.from(tokens.rewards);
  let [mean, max, rows] = [0, 0, 0];
  eachRow(tokens.starts, (_, from, to) => {
    let [sum, largest] = [0, 0];
    for (let i = from; i < to; i++) {
      const kl = at(tokens.mask, i) * klEstimate(kind, at(tokens.logprobs, i), at(tokens.reference, i)).kl;
      rewards[i] = at(tokens.rewards, i) - Math.max(0, weight) * kl;
      sum += kl;
      largest = Math.max(largest, Math.abs(kl));
    }
    mean += sum / Math.max(1, countOf(tokens.mask, from, to));
    max += largest;
    rows += 1;
  });
  return { rewards, mean: mean / Math.max(1, rows), max: max / Math.max(1, rows) };
}

/** How the weight of the KL term changes from step to step, given the measured KL. */
export type KlController =
  | { readonly controller: 'fixed' }
  | {
      readonly controller: 'adaptive';
      /** Target KL, in nats per token. */
      readonly target: number;
      /** Number of sequences after which a full error has changed the weight by a factor of about e^±0.2. */
      readonly horizon: number;
    };

/**
 * weight · (1 + clip(kl / target − 1, ±0.2) · sequences / horizon) (Ziegler et al. 2019, §2.2); `fixed` returns
 * `weight`. Errors: `RangeError` for a horizon that is not above 0, or an unknown controller.
 */
export function nextKlCoefficient(weight: number, controller: KlController, kl: number, sequences: number): number {
  if (controller.controller === 'fixed') return weight;
  const { controller: name, target, horizon } = controller;
  if (name !== 'adaptive') throw new RangeError(`controller: ${String(name)} cannot be used; give fixed or adaptive`);
  if (!(horizon > 0)) throw new RangeError(`horizon: ${horizon} cannot be used; give a number above 0`);
  const error = Math.min(0.2, Math.max(-0.2, kl / target - 1));
  return weight * (1 + (error * sequences) / horizon);
}
