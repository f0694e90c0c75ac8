/** What a critic's part of an update measures, by SkyRL's names where it has one (`critic/…`). */

import type { CriticSettings } from '../../protocol/algorithm.ts';

/** What a tally holds, as data. */
export interface CriticTallyData {
  readonly loss: number;
  readonly clipped: number;
  readonly values: number;
  readonly tokens: number;
  readonly gradNorm: number;
  readonly steps: number;
}

/** Σ over passes and steps. */
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

  /** Adds what another tally measured, in the order of calls. */
  merge({ loss, clipped, values, tokens, gradNorm, steps }: CriticTallyData): void {
    this.#loss += loss;
    this.#clipped += clipped;
    this.#values += values;
    this.#tokens += tokens;
    this.#gradNorm += gradNorm;
    this.#steps += steps;
  }

  /** `loss` is the pass's part of its minibatch's. */
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

  /** Loss and norm are means over the optimizer's steps, the others over the tokens of all passes. */
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

/** Mean and variance, the population's. */
function momentsOf(values: readonly number[]): readonly [number, number] {
  const mean = values.reduce((sum, x) => sum + x, 0) / Math.max(1, values.length);
  return [mean, values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / Math.max(1, values.length)];
}

type Valued = ReadonlyArray<{ readonly values: Float64Array; readonly returns: Float64Array }>;

/**
 * Over the tokens, before the first step: the mean return, and 1 − Var(R − V) / Var(R), which is 1 for a critic that knows
 * everything and 0 for one that knows the mean; left out where all returns are the same.
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
