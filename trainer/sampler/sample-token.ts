/**
 * Draws one token from a row of logits, in float64 and in time linear in the vocabulary. The log-probability is that of
 * the whole distribution at the sampling temperature, before any filter, as float32: as in the compiled decoder.
 */

import type { TokenLogprob } from '../generate-request.ts';
import type { SamplingParameters } from '../../protocol/sampling.ts';
import type { Drawn } from './pass/decoder.ts';

/** The policy's logits contain NaN or infinity: its weights are broken, and its tokens are meaningless. */
export class NonFiniteLogits extends Error {
  override readonly name = 'NonFiniteLogits';
  constructor() {
    super('the logits are not finite: the weights of this policy are broken');
  }
}

/** The lowest id among the largest of the first `limit` logits. */
function argMax(logits: Float32Array, limit: number): number {
  let best = 0;
  for (let id = 1; id < Math.min(limit, logits.length); id++) {
    if ((logits[id] ?? -Infinity) > (logits[best] ?? -Infinity)) best = id;
  }
  return best;
}

/**
 * The largest `t` such that all values >= `t` together weigh at least `target`: quickselect, which reorders `values`.
 * The weight of a value is the value itself, or 1 if `counting`.
 */
function threshold(values: Float64Array, target: number, counting: boolean): number {
  let [from, to, above] = [0, values.length, 0];
  while (to - from > 1) {
    const pivot = values[(from + to) >>> 1] ?? 0;
    let [greater, at, less] = [from, from, to];
    let [greaterMass, equalMass] = [0, 0];
    while (at < less) {
      const value = values[at] ?? 0;
      const mass = counting ? 1 : value;
      if (value > pivot) {
        greaterMass += mass;
        values[at++] = values[greater] ?? 0;
        values[greater++] = value;
      } else if (value < pivot) {
        values[at] = values[--less] ?? 0;
        values[less] = value;
      } else {
        equalMass += mass;
        at += 1;
      }
    }
    if (above + greaterMass >= target) to = greater;
    else if (above + greaterMass + equalMass >= target || less === to) return pivot;
    else [from, above] = [less, above + greaterMass + equalMass];
  }
  return values[from] ?? 0;
}

/** Keeps the `topK` largest weights and those equal to the last of them; the others become 0. */
function keepTopK(weights: Float64Array, topK: number): void {
  if (topK <= 0 || topK >= weights.length) return;
  const least = threshold(weights.slice(), topK, true);
  for (let id = 0; id < weights.length; id++) if ((weights[id] ?? 0) < least) weights[id] = 0;
}

/**
 * Keeps the fewest, largest weights whose share reaches `topP` (Holtzman et al. 2020, eq. 2). Of equal weights, higher
 * ids first, as `transformers` does.
 */
function keepTopP(weights: Float64Array, topP: number): void {
  if (topP >= 1) return;
  const total = weights.reduce((a, b) => a + b, 0);
  const target = topP * total;
  const least = threshold(weights.slice(), target, false);
  let missing = target - weights.reduce((a, b) => (b > least ? a + b : a), 0);
  let first = true;
  for (let id = weights.length - 1; id >= 0; id--) {
    const weight = weights[id] ?? 0;
    if (weight > least) continue;
    const keep = weight === least && (missing > 0 || (first && topP <= 0));
    if (!keep) weights[id] = 0;
    else [missing, first] = [missing - weight, false];
  }
}

/** Keeps weights of at least `minP` times the largest (Nguyen et al. 2024, algorithm 1). */
function keepMinP(weights: Float64Array, minP: number): void {
  if (minP <= 0) return;
  const least = minP * weights.reduce((a, b) => Math.max(a, b), 0);
  for (let id = 0; id < weights.length; id++) if ((weights[id] ?? 0) < least) weights[id] = 0;
}

export type Filters = Pick<SamplingParameters, 'topK' | 'topP' | 'minP'>;

/** Filters weights in place: top-k, then top-p, then min-p. Removed weights become 0. */
export function filterWeights(weights: Float64Array, { topK, topP, minP = 0 }: Filters): void {
  keepTopK(weights, topK);
  keepTopP(weights, topP);
  keepMinP(weights, minP);
}

/** The logits with those of `seen` divided by `penalty`, multiplied where negative (Keskar et al. 2019, §4.1). */
function penalised(logits: Float32Array, seen: Iterable<number>, penalty: number): Float32Array {
  const changed = logits.slice();
  for (const id of new Set(seen)) {
    const logit = changed[id];
    if (logit !== undefined) changed[id] = logit < 0 ? logit * penalty : logit / penalty;
  }
  return changed;
}

/** The first token at which the running sum exceeds `uniform` times the total. */
function inverse(weights: Float64Array, uniform: number): number {
  let total = 0;
  for (const weight of weights) total += weight;
  const wanted = uniform * total;
  let [sum, last] = [0, 0];
  for (let id = 0; id < weights.length; id++) {
    const weight = weights[id] ?? 0;
    if (weight <= 0) continue;
    sum += weight;
    last = id;
    if (sum > wanted) break;
  }
  return last;
}

/** exp((logit − largest) / temperature), and their sum. Errors: `NonFiniteLogits`. */
function weigh(logits: Float32Array, temperature: number): { weights: Float64Array; largest: number; sum: number } {
  let largest = -Infinity;
  for (const logit of logits) if (logit > largest) largest = logit;
  const weights = new Float64Array(logits.length);
  let sum = 0;
  for (let id = 0; id < weights.length; id++) {
    const weight = Math.exp(((logits[id] ?? 0) - largest) / temperature);
    weights[id] = weight;
    sum += weight;
  }
  if (!Number.isFinite(sum)) throw new NonFiniteLogits();
  return { weights, largest, sum };
}

/**
 * Draws from `logits` (`[vocab]`) with `uniform` in [0, 1). Only ids below `limit` can be drawn; temperature 0 is
 * greedy, ties to the lowest id. `seen`: tokens that a repetition penalty applies to; it does not change the
 * log-probability. Errors: `NonFiniteLogits`.
 */
export function sampleToken(
  logits: Float32Array,
  limit: number,
  sampling: SamplingParameters,
  uniform: number,
  seen: Iterable<number> = [],
): Drawn {
  const greedy = sampling.temperature === 0;
  const temperature = greedy ? 1 : sampling.temperature;
  const { repetitionPenalty = 1 } = sampling;
  const plain = weigh(logits, temperature);
  const chosen = repetitionPenalty === 1 ? logits : penalised(logits, seen, repetitionPenalty);
  const pick = (): number => {
    if (greedy) return argMax(chosen, limit);
    const { weights } = chosen === logits ? plain : weigh(chosen, temperature);
    return draw(weights.subarray(0, limit), sampling, uniform);
  };
  const token = pick();
  return { token, logprob: Math.fround(((logits[token] ?? 0) - plain.largest) / temperature - Math.log(plain.sum)) };
}

function draw(weights: Float64Array, sampling: SamplingParameters, uniform: number): number {
  filterWeights(weights, sampling);
  return inverse(weights, uniform);
}

/** log p of `token`, and of the `count` likeliest tokens: likeliest first, lower ids first among equals. */
export function rankTokens(
  logits: Float32Array,
  temperature: number,
  token: number,
  count: number,
): { logprob: number; top: TokenLogprob[] } {
  const { largest, sum } = weigh(logits, temperature);
  const logprob = (id: number): number => Math.fround(((logits[id] ?? 0) - largest) / temperature - Math.log(sum));
  if (count <= 0) return { logprob: logprob(token), top: [] };
  // Selected by their logits: at a low temperature almost all weights are 0.
  const least = count >= logits.length ? -Infinity : threshold(Float64Array.from(logits), count, true);
  const candidates = [...logits.keys()].filter((id) => (logits[id] ?? 0) >= least);
  candidates.sort((a, b) => (logits[b] ?? 0) - (logits[a] ?? 0) || a - b);
  return {
    logprob: logprob(token),
    top: candidates.slice(0, count).map((id) => ({ token: id, logprob: logprob(id) })),
  };
}
