/** Metrics of a critic's part of an update (`critic/…`), with SkyRL's names if it has them. */

import type { CriticSettings } from '../../protocol/algorithm.ts';

/** A tally as data. */
export interface CriticTallyData {
  readonly loss: number;
  readonly clipped: number;
  readonly values: number;
  readonly tokens: number;
  readonly gradNorm: number;
  readonly steps: number;
}

/** Sums over passes and steps. */
export class CriticTally {
  #loss = 0;
  #clipped = 0;
  #values = 0;
  #tokens = 0;
  #gradNorm = 0;
  #steps = 0;

  get data(): CriticTallyData {
    return {
      loss: this.#loss,
      clipped: this.#clipped,
      values: this.#values,
      tokens: this.#tokens,
      gradNorm: this.#gradNorm,
      steps: this.#steps,
    };
  }

  /** Adds another tally's data, in call order. */
  merge({ loss, clipped, values, tokens, gradNorm, steps }: CriticTallyData): void {
    this.#loss += loss;
    this.#clipped += clipped;
    this.#values += values;
    this.#tokens += tokens;
    this.#gradNorm += gradNorm;
    this.#steps += steps;
  }

  /** `loss` is the pass's share of its minibatch's loss. */
  addPass(values: Float32Array, loss: number, clipFraction: number): void {
    this.#loss += loss;
    this.#clipped += clipFraction * values.length;
    this.#values += values.reduce((sum, value) => sum + value, 0);
    this.#tokens += values.length;
  }

  addStep(gradNorm: number): void {
    this.#gradNorm += gradNorm;
    this.#steps += 1;
  }

  /** Loss and gradient norm are means over optimizer steps, the others over the tokens of all passes. */
  metrics(): Record<string, number> {
    const [steps, tokens] = [Math.max(1, this.#steps), Math.max(1, this.#tokens)];
    return {
      'critic/critic_loss': this.#loss / steps,
      'critic/values_mean': this.#values / tokens,
      'critic/values_clipfrac': this.#clipped / tokens,
      'critic/grad_norm': this.#gradNorm / steps,
    };
  }
}

/** Mean and population variance. */
function momentsOf(values: readonly number[]): readonly [number, number] {
  const mean = values.reduce((sum, x) => sum + x, 0) / Math.max(1, values.length);
  return [mean, values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / Math.max(1, values.length)];
}

type Valued = ReadonlyArray<{ readonly values: Float64Array; readonly returns: Float64Array }>;

/**
 * Over the tokens, before the first step: the mean return, and the explained variance 1 − Var(R − V) / Var(R). It is 1
 * for a perfect critic, 0 for a critic that returns the mean, and omitted if all returns are equal.
 */
function returnMetrics(sequences: Valued): Record<string, number> {
  const returns = sequences.flatMap((sequence) => [...sequence.returns]);
  const errors = sequences.flatMap(({ values, returns: wanted }) => [...wanted].map((r, i) => r - (values[i] ?? 0)));
  const [mean, variance] = momentsOf(returns);
  const [, unexplained] = momentsOf(errors);
  return {
    'critic/returns_mean': mean,
    ...(variance > 0 && { 'critic/explained_variance': 1 - unexplained / variance }),
  };
}

export function criticMetrics(
  tally: CriticTally,
  sequences: Valued,
  { learningRate }: CriticSettings,
): Record<string, number> {
  return { ...tally.metrics(), ...returnMetrics(sequences), 'critic/critic_lr': learningRate };
}
