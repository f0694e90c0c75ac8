/** An update as it will be made: minibatches (one optimizer step each) of micro-batches (one pass each), their advantages scaled. */

import { type LossReduction, reductionScales } from '../algorithms/reductions/reduce.ts';
import { startsOf } from '../algorithms/rows.ts';
import { microBatches, shuffled, split } from '../batching.ts';
import type { UpdateSettings } from '../engine.ts';
import { ones, parted } from './arrays.ts';
import type { Sample } from './sample.ts';

/** A sequence in its minibatch. */
export interface PlannedSample {
  readonly sample: Sample;
  readonly tokens: readonly number[];
  readonly mask: readonly number[];
  /** Scaled for the reduction over the minibatch. */
  readonly advantages: Float64Array;
}

export interface Minibatch {
  readonly micro: ReadonlyArray<readonly PlannedSample[]>;
  /** In all its micro-batches. */
  readonly tokens: number;
  readonly sequences: number;
}

interface Credited {
  readonly sample: Sample;
  readonly advantages: Float64Array;
}

/** First index of each run of equal keys, and the end. */
function runStarts(keys: readonly string[]): number[] {
  return [...keys.flatMap((key, i) => (key === keys[i - 1] ? [] : [i])), keys.length];
}

const groupOf = ({ sample: { datum } }: Credited): string => datum.credit?.group ?? '';

function scaled(items: readonly Credited[], settings: UpdateSettings, micro: ReadonlyArray<readonly Credited[]>): Map<Credited, Float64Array> {
  const reduction: LossReduction = settings.lossReduction ?? 'token_mean';
  const byGroup = reduction === 'prompt_mean' ? [...items].sort((a, b) => (groupOf(a) < groupOf(b) ? -1 : Number(groupOf(a) > groupOf(b)))) : micro.flat();
  const lengths = byGroup.map(({ sample }) => sample.count);
  const starts = startsOf(lengths);
  const scales = reductionScales(reduction, {
    starts,
    mask: ones(starts.at(-1) ?? 0),
    promptStarts: runStarts(byGroup.map(groupOf)),
    microStarts: startsOf(micro.map((one) => one.length)),
    ...(settings.maxSequenceTokens !== undefined && { maxSequenceTokens: settings.maxSequenceTokens }),
  });
  const parts = parted(scales, lengths);
  return new Map(byGroup.map((item, i) => [item, item.advantages.map((advantage, t) => advantage * (parts[i]?.[t] ?? 0))]));
}

function minibatchOf(items: readonly Credited[], settings: UpdateSettings): Minibatch {
  const sequences = items.map((item) => ({ item, tokens: item.sample.datum.tokens, mask: item.sample.datum.mask }));
  const micro = microBatches(sequences, settings);
  const advantages = scaled(items, settings, micro.map((one) => one.map(({ item }) => item)));
  return {
    micro: micro.map((one) =>
      one.map(({ item, tokens, mask }) => ({ sample: item.sample, tokens, mask, advantages: advantages.get(item) ?? new Float64Array(0) })),
    ),
    tokens: items.reduce((sum, { sample }) => sum + sample.count, 0),
    sequences: items.length,
  };
}

/** Epochs of minibatches, in an order named by `key`. Errors: `BadReduction`. */
export function planUpdate(items: readonly Credited[], settings: UpdateSettings, key: string): Minibatch[][] {
  return Array.from({ length: settings.epochs }, (_, epoch) => {
    const order = shuffled(items.length, `${key} epoch ${epoch}`);
    const shuffledItems = order.flatMap((i) => items[i] ?? []);
    return split(shuffledItems, settings.minibatches).map((part) => minibatchOf(part, settings));
  });
}
