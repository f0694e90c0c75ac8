/** Accumulates an update's metrics over its passes: means over tokens, extremes, and sums over minibatches. */

import { klEstimate } from '../algorithms/kl.ts';
import { clamp, clampedExp, MAX_LOG_RATIO } from '../algorithms/rows.ts';
import type { UpdateMetrics, UpdateSettings } from '../../protocol/algorithm.ts';
import type { TokenStatistics } from '../passes.ts';
import { differenceMetrics, type Differences, MINIBATCH, ROLLOUT_TRAIN } from './logprob-difference.ts';
import type { Objective } from '../passes.ts';
import type { PassTokens } from './train-policy.ts';

/** One quantity as data: Σ value × weight, Σ weight, and the extremes. */
type QuantityData = readonly [sum: number, weight: number, max: number, min: number];

/** A tally as JSON-safe data; quantities without a value are omitted. */
export interface TallyData {
  readonly quantities: ReadonlyArray<readonly [name: string, ...QuantityData]>;
  readonly policyLoss: number;
  readonly klLoss: number;
  readonly steps: number;
}

/** Σ and extremes of one quantity, each value with a weight. */
class Quantity {
  sum = 0;
  weight = 0;
  max = -Infinity;
  min = Infinity;

  merge([sum, weight, max, min]: QuantityData): void {
    this.sum += sum;
    this.weight += weight;
    this.max = Math.max(this.max, max);
    this.min = Math.min(this.min, min);
  }

  add(value: number, weight = 1): void {
    this.sum += value * weight;
    this.weight += weight;
    this.max = Math.max(this.max, value);
    this.min = Math.min(this.min, value);
  }

  get mean(): number {
    return this.weight === 0 ? 0 : this.sum / this.weight;
  }
}

type Kind = 'mean' | 'max' | 'min';
const kindOf = (name: string): Kind => (name.endsWith('_max') ? 'max' : name.endsWith('_min') ? 'min' : 'mean');

export class Tally {
  readonly #quantities = new Map<string, Quantity>();
  #policyLoss = 0;
  #klLoss = 0;
  #steps = 0;
  readonly #stepsBefore: number;

  /** `stepsBefore`: steps of the update that other tallies counted. */
  constructor(stepsBefore = 0) {
    this.#stepsBefore = stepsBefore;
  }

  get data(): TallyData {
    const quantities = [...this.#quantities].flatMap(([name, { sum, weight, max, min }]) =>
      weight === 0 ? [] : [[name, sum, weight, max, min] as const],
    );
    return { quantities, policyLoss: this.#policyLoss, klLoss: this.#klLoss, steps: this.#steps };
  }

  /** Adds another tally's data. Sums are added in call order, so that the same calls give the same bits. */
  merge({ quantities, policyLoss, klLoss, steps }: TallyData): void {
    for (const [name, ...values] of quantities) this.of(name).merge(values);
    this.#policyLoss += policyLoss;
    this.#klLoss += klLoss;
    this.#steps += steps;
  }

  of(name: string): Quantity {
    const quantity = this.#quantities.get(name) ?? new Quantity();
    this.#quantities.set(name, quantity);
    return quantity;
  }

  /** `entropies` are given in the first epoch only. The drift is measured in passes before the first step. */
  addPass(
    tokens: PassTokens,
    { logprobs, entropies }: TokenStatistics,
    { policyLoss, klLoss, metrics }: Omit<Objective, 'gradient'>,
  ): void {
    this.#policyLoss += policyLoss;
    this.#klLoss += klLoss;
    for (const [name, value] of Object.entries(metrics)) this.of(`policy/${name}`).add(value, logprobs.length);
    this.#addTokens(tokens, logprobs);
    const entropy = this.of('entropy');
    for (const value of entropies ?? []) entropy.add(value);
  }

  #addTokens({ recorded, old, reference }: PassTokens, logprobs: Float32Array): void {
    const [ratio, kl] = [this.of('ratio'), this.of('kl')];
    const compared = this.#stepsBefore + this.#steps === 0 ? ['drift', 'difference'] : ['difference'];
    const drifts = compared.map((name) => [this.of(name), this.of(`${name}²`)] as const);
    for (const [i, logprob] of logprobs.entries()) {
      const change = logprob - (recorded[i] ?? 0);
      ratio.add(clampedExp(logprob - (old[i] ?? 0)));
      // KL(sampling policy ‖ trained policy), from the sampling policy's tokens (k3, Schulman 2020).
      kl.add(clampedExp(change) - clamp(change, -MAX_LOG_RATIO, MAX_LOG_RATIO) - 1);
      for (const [plain, squared] of drifts) {
        plain.add(Math.abs(change));
        squared.add(change ** 2);
      }
      if (reference) this.of('reference').add(klEstimate('k3', logprob, reference[i] ?? 0).kl);
    }
  }

  #differences(name: string): Differences {
    const { sum, weight: count, max, min } = this.of(name);
    return { count, sum, squares: this.of(`${name}²`).sum, max, min };
  }

  /** `null`: the backend does not report the norm. */
  addStep(gradNorm: number | null): void {
    if (gradNorm !== null) this.of('gradNorm').add(gradNorm);
    this.#steps += 1;
  }

  metrics(
    trainedTokens: number,
    sequences: number,
    settings: UpdateSettings,
    more: Readonly<Record<string, number>>,
  ): Omit<UpdateMetrics, 'sha256'> {
    const steps = Math.max(1, this.#steps);
    const [policy, kl] = [this.#policyLoss / steps, this.#klLoss / steps];
    const entropy = this.of('entropy').mean;
    const loss = policy + (settings.kl?.coefficient ?? 0) * kl - (settings.entropyCoefficient ?? 0) * entropy;
    const drift = this.of('drift');
    const clipFraction = this.of('policy/clip_ratio').mean;
    const named = [...this.#quantities].filter(([name]) => name.startsWith('policy/'));
    return {
      loss,
      kl: this.of('kl').mean,
      entropy,
      gradNorm: this.of('gradNorm').mean,
      clipFraction,
      trainedTokens,
      logprobDrift: { meanAbs: drift.mean, maxAbs: Math.max(0, drift.max) },
      metrics: {
        'policy/policy_loss': policy,
        'policy/final_loss': loss,
        'policy/policy_entropy': entropy,
        'policy/policy_lr': settings.learningRate,
        'policy/grad_norm': this.of('gradNorm').mean,
        ...differenceMetrics(ROLLOUT_TRAIN, this.#differences('drift')),
        ...differenceMetrics(MINIBATCH, this.#differences('difference')),
        ...ratioMetrics(this.of('ratio')),
        ...(this.#quantities.has('reference') && { 'policy/policy_kl': this.of('reference').mean }),
        ...(settings.kl?.in === 'loss' && { 'policy/kl_loss': kl }),
        ...(settings.kl && { 'policy/kl_coefficient': settings.kl.coefficient }),
        ...Object.fromEntries(named.map(([name, quantity]) => [name, quantity[kindOf(name)]])),
        'policy/num_sequences': sequences,
        ...more,
      },
    };
  }
}

const ratioMetrics = ({ mean, max, min }: Quantity): Record<string, number> => ({
  'policy/ratio_mean': mean,
  'policy/ratio_max': max,
  'policy/ratio_min': min,
});
