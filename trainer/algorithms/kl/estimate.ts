/** Estimates of KL(policy ‖ reference) from the log-probabilities of one sampled token, and their derivatives. */

import { KL_ESTIMATORS, type KlEstimator } from '../../../protocol/algorithm.ts';
import { clamp, MAX_LOG_RATIO } from '../rows.ts';

export interface KlEstimate {
  readonly kl: number;
  /** d kl / d logprob. */
  readonly slope: number;
}

/** Estimates by k3 are clamped to ±10. */
const MAX_K3 = 10;

function k3(logprob: number, reference: number): KlEstimate {
  const difference = clamp(reference - logprob, -MAX_LOG_RATIO, MAX_LOG_RATIO);
  const estimate = Math.exp(difference) - difference - 1;
  const inside = difference === reference - logprob && estimate <= MAX_K3;
  return { kl: clamp(estimate, -MAX_K3, MAX_K3), slope: inside ? 1 - Math.exp(difference) : 0 };
}

/**
 * With d = logprob − reference: k1 = d, k2 = d²/2, k3 = e^−d + d − 1 (clamped), abs = |d| (Schulman 2020, "Approximating KL
 * Divergence"; abs is the trainers' own). k3 is never negative; k1 alone is unbiased in value. Errors: a `RangeError` for an estimator that there is not.
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
      throw new RangeError(`there is no KL estimator ${String(kind)}; known: ${KL_ESTIMATORS.join(', ')}`);
  }
}
