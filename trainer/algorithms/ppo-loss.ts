/** The clipped policy loss as a function of log-probabilities alone: value, gradient and what is watched, in float64. */

export interface PolicyTokens {
  /** Of the policy that is trained; nats; one entry per token that counts. */
  readonly logprobs: ArrayLike<number>;
  /** Of the policy that sampled, as recorded. */
  readonly recorded: ArrayLike<number>;
  readonly advantages: ArrayLike<number>;
}

export interface ClipRange {
  readonly clipLow: number;
  readonly clipHigh: number;
}

/** Sums over tokens: divide by the number of tokens of the minibatch for its token mean. */
export interface PolicyLoss {
  readonly loss: number;
  /** d loss / d logprobs. */
  readonly gradient: Float64Array;
  /** Tokens where the clipped term was the larger loss. */
  readonly clipped: number;
  /** Σ of the k3 estimate of KL(sampling policy ‖ trained policy): e^d − d − 1, d = trained − recorded (Schulman 2020). */
  readonly kl: number;
}

/** Log-ratios are clamped to ±20 before exp. */
const maxLogRatio = 20;

/**
 * −min(ρA, clip(ρ, 1 − low, 1 + high)·A) with ρ = exp(logprob − recorded) (PPO: Schulman et al. 2017, eq. 7; the
 * asymmetric range: DAPO, Yu et al. 2025, eq. 10). The gradient is 0 where the clipped term is chosen.
 */
export function ppoLoss(tokens: PolicyTokens, { clipLow, clipHigh }: ClipRange): PolicyLoss {
  const count = tokens.logprobs.length;
  const gradient = new Float64Array(count);
  const sums = { loss: 0, clipped: 0, kl: 0 };
  for (let i = 0; i < count; i++) {
    const advantage = tokens.advantages[i] ?? 0;
    const difference = (tokens.logprobs[i] ?? 0) - (tokens.recorded[i] ?? 0);
    const logRatio = Math.min(maxLogRatio, Math.max(-maxLogRatio, difference));
    const ratio = Math.exp(logRatio);
    const plain = -ratio * advantage;
    const bounded = -Math.min(1 + clipHigh, Math.max(1 - clipLow, ratio)) * advantage;
    sums.loss += Math.max(plain, bounded);
    sums.kl += ratio - logRatio - 1;
    if (bounded > plain) sums.clipped += 1;
    else if (logRatio === difference) gradient[i] = plain;
  }
  return { ...sums, gradient };
}

/** |trainer − recorded| over tokens: Σ and maximum. */
export function logprobDrift(logprobs: ArrayLike<number>, recorded: ArrayLike<number>): { sum: number; max: number } {
  let [sum, max] = [0, 0];
  for (let i = 0; i < logprobs.length; i++) {
    const drift = Math.abs((logprobs[i] ?? 0) - (recorded[i] ?? 0));
    sum += drift;
    max = Math.max(max, drift);
  }
  return { sum, max };
}
