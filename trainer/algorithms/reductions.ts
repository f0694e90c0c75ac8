/**
 * Loss reductions. Advantages are scaled before the loss, so that a plain sum over all micro-batches of a minibatch is
 * the configured mean.
 */

import { type Values, at, maskedMean, sumOver, type Masked, countOf, eachRow, rowCount } from './rows.ts';
import { LOSS_REDUCTIONS, type LossReduction } from '../../protocol/algorithm.ts';

/** What a reduction needs of a minibatch. */
export interface ReducedBatch extends Masked {
  /** `prompt_mean`: index of the first sequence of each prompt, then the number of sequences. */
  readonly promptStarts?: readonly number[];
  /**
   * `token_mean_legacy`: index of the first sequence of each micro-batch, then the end of the last one. Sequences after
   * that get 0.
   */
  readonly microStarts?: readonly number[];
  /** `seq_mean_token_sum_norm`: number of tokens that every sequence is divided by. */
  readonly maxSequenceTokens?: number;
}

/** Unknown reduction, or one whose divisor is missing. */
export class BadReduction extends Error {
  override readonly name = 'BadReduction';
}

/** Scale of the tokens of sequences first[k] … first[k + 1] − 1: 1 / (number of runs · the run's tokens that count). */
function byRuns({ starts, mask }: ReducedBatch, first: readonly number[] | undefined, name: string): Float64Array {
  if (first === undefined) throw new BadReduction(`${name} needs the starts of its runs of sequences`);
  const scales = new Float64Array(mask.length);
  const runs = Math.max(1, first.length - 1);
  for (let run = 0; run + 1 < first.length; run++) {
    const [from, to] = [at(starts, at(first, run)), at(starts, at(first, run + 1))];
    scales.fill(1 / (runs * Math.max(1, countOf(mask, from, to))), from, to);
  }
  return scales;
}

function bySequence({ starts, mask }: ReducedBatch): Float64Array {
  const scales = new Float64Array(mask.length);
  eachRow(starts, (_, from, to) => {
    scales.fill(1 / (rowCount(starts) * Math.max(1, countOf(mask, from, to))), from, to);
  });
  return scales;
}

/**
 * Factor of each token's advantage. token_mean: 1/Σm (DAPO: Yu et al. 2025, eq. 8) · token_mean_legacy: the same
 * per micro-batch, then the mean of these · sequence_mean: 1/(B·|o_i|) (GRPO: Shao et al. 2024, eq. 3) ·
 * seq_mean_token_sum_norm: 1/(B·L) (Dr. GRPO: Liu et al. 2025, §3.2) · prompt_mean: 1/(P·tokens of the prompt).
 * Errors: `BadReduction`.
 */
export function reductionScales(reduction: LossReduction, batch: ReducedBatch): Float64Array {
  const { starts, mask, maxSequenceTokens } = batch;
  const constant = (scale: number): Float64Array => new Float64Array(mask.length).fill(scale);
  switch (reduction) {
    case 'token_mean':
      return constant(1 / Math.max(1, countOf(mask)));
    case 'token_mean_legacy':
      return byRuns(batch, batch.microStarts, reduction);
    case 'sequence_mean':
      return bySequence(batch);
    case 'seq_mean_token_sum_norm':
      if (maxSequenceTokens === undefined)
        throw new BadReduction('seq_mean_token_sum_norm needs maxSequenceTokens, the number of tokens to divide by');
      return constant(1 / (rowCount(starts) * maxSequenceTokens));
    case 'prompt_mean':
      return byRuns(batch, batch.promptStarts, reduction);
    default:
      throw new BadReduction(`unknown reduction ${String(reduction)}; known: ${LOSS_REDUCTIONS.join(', ')}`);
  }
}

/** Advantages times their scales. Errors: `BadReduction`. */
export function reduceAdvantages(advantages: Values, reduction: LossReduction, batch: ReducedBatch): Float64Array {
  return reductionScales(reduction, batch).map((scale, i) => scale * at(advantages, i));
}

/**
 * (A − mean) / √max(var, 1e-8). The mean is over all entries, padding read as 0; var is the mean squared distance from
 * it over the tokens that count (SkyRL's `advantage_batch_normalize`).
 */
export function normaliseAdvantages(advantages: Values, mask: Values): Float64Array {
  const mean = sumOver(0, mask.length, (i) => at(advantages, i)) / Math.max(1, mask.length);
  const variance = maskedMean(mask, (i) => (at(advantages, i) - mean) ** 2);
  const scale = 1 / Math.sqrt(Math.max(variance, 1e-8));
  return Float64Array.from(advantages, (advantage) => (advantage - mean) * scale);
}
