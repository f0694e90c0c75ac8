/** What a policy loss is: for each token its value and its derivative by the token's own log-probability. Pure, in float64. */

import type { Masked, Values } from '../rows.ts';
import type { LossSettings } from '../../../protocol/algorithm.ts';

/** Tokens of a pass; log-probabilities in nats. */
export interface PolicyTokens extends Masked {
  /** Of the policy that is trained. */
  readonly logprobs: Values;
  /** Of the policy as it was when the update began. */
  readonly old: Values;
  /** As recorded when sampled; absent where nothing recorded them. */
  readonly rollout?: Values | undefined;
  /** Scaled for the reduction: losses are summed. */
  readonly advantages: Values;
}

export type Metrics = Readonly<Record<string, number>>;

/** What cannot be computed from what is given. */
export class LossRefused extends Error {
  override readonly name = 'LossRefused';
}

/** Per token, masked ones included, before any correction; factors under a stop-gradient are constants in `slopes`. */
export interface TokenTerms {
  readonly values: Float64Array;
  /** d value / d logprob of the same token. */
  readonly slopes: Float64Array;
  /** Means over the tokens that count, by name. */
  readonly metrics: Metrics;
}

export interface PolicyLossDefinition {
  /** Whether off-policy correction weighs and masks it; where not, asking for one is refused. */
  readonly correctable: boolean;
  /** Whether it reads `rollout`. */
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

/** Errors: `LossRefused` where nothing recorded them. */
export function rolloutOf({ rollout }: PolicyTokens, loss: string): Values {
  if (rollout === undefined)
    throw new LossRefused(`${loss} needs the log-probabilities that were recorded when sampling`);
  return rollout;
}
