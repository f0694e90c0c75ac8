/**
 * A policy loss over a pass: the terms of its tokens, corrected for off-policy data, summed over the tokens that count.
 */

import { type Correction, correctOffPolicy } from '../off-policy.ts';
import { isCorrecting } from '../off-policy-settings.ts';
import { at } from '../rows.ts';
import type { Metrics, PolicyLossDefinition, PolicyTokens } from './loss.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

export interface PolicyLoss {
  /** Σ over the tokens that count. */
  readonly loss: number;
  /** d loss / d logprobs. */
  readonly gradient: Float64Array;
  readonly metrics: Metrics;
}

function correctionOf(
  loss: PolicyLossDefinition,
  tokens: PolicyTokens,
  { offPolicyCorrection }: LossSettings,
): Correction | undefined {
  const { rollout } = tokens;
  if (
    !loss.correctable ||
    offPolicyCorrection === undefined ||
    rollout === undefined ||
    !isCorrecting(offPolicyCorrection)
  )
    return undefined;
  return correctOffPolicy({ ...tokens, rollout }, offPolicyCorrection);
}

/** Errors: `LossRefused`. */
export function policyLoss(loss: PolicyLossDefinition, tokens: PolicyTokens, settings: LossSettings): PolicyLoss {
  const { values, slopes, metrics } = loss.terms(tokens, settings);
  const correction = correctionOf(loss, tokens, settings);
  const mask = correction?.mask ?? tokens.mask;
  const gradient = new Float64Array(mask.length);
  let sum = 0;
  for (let i = 0; i < gradient.length; i++) {
    if (at(mask, i) === 0) continue;
    const weight = correction?.weights === undefined ? 1 : at(correction.weights, i);
    sum += weight * at(values, i);
    gradient[i] = weight * at(slopes, i);
  }
  return { loss: sum, gradient, metrics: { ...metrics, ...correction?.metrics } };
}
