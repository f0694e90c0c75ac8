/**
 * The interface of policy losses: each token's value and its derivative by the token's log-probability. Pure, in
 * float64.
 */

import type { Masked, Values } from '../rows.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

/** Tokens of a pass; log-probabilities in nats. */
export interface PolicyTokens extends Masked {
  /** Log-probabilities of the trained policy. */
  readonly logprobs: Values;
  /** Log-probabilities of the policy before the update's first step. */
  readonly old: Values;
  /** Log-probabilities recorded when sampling; absent if none were recorded. */
  readonly rollout?: Values | undefined;
  /** Scaled for the reduction, since losses are summed. */
  readonly advantages: Values;
}

export type Metrics = Readonly<Record<string, number>>;

/** The loss cannot be computed from its settings or inputs. */
export class LossRefused extends Error {
  override readonly name = 'LossRefused';
}

/**
 * Per token, masked tokens included, before any correction. `slopes` treat factors under a stop-gradient as constants.
 */
export interface TokenTerms {
  readonly values: Float64Array;
  /** d value / d logprob of the same token. */
  readonly slopes: Float64Array;
  /** Means over the tokens that count, by name. */
  readonly metrics: Metrics;
}

export interface PolicyLossDefinition {
  /** True if off-policy correction applies to this loss; if false, a configured correction is refused. */
  readonly correctable: boolean;
  /** True if it reads `rollout`. */
  readonly needsRollout?: (settings: LossSettings) => boolean;
  /** Errors: `LossRefused`. */
  readonly terms: (tokens: PolicyTokens, settings: LossSettings) => TokenTerms;
}

/** Terms of `count` tokens, each by `term`, which returns [value, slope]. */
export function termsOf(
  count: number,
  term: (i: number) => readonly [number, number],
  metrics: () => Metrics,
): TokenTerms {
  const [values, slopes] = [new Float64Array(count), new Float64Array(count)];
  for (let i = 0; i < count; i++) [values[i], slopes[i]] = term(i) as [number, number];
  return { values, slopes, metrics: metrics() };
}

/** Errors: `LossRefused` if none were recorded. */
export function rolloutOf({ rollout }: PolicyTokens, loss: string): Values {
  if (rollout === undefined) throw new LossRefused(`${loss} needs log-probabilities recorded when sampling`);
  return rollout;
}
