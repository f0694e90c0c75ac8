/** The plan of an update: minibatches (one optimizer step each) of micro-batches (one pass each), advantages scaled. */

import { reductionScales } from '../algorithms/reductions.ts';
import type { LossReduction, UpdateSettings } from '../../protocol/algorithm.ts';
import { startsOf, ones, parted } from '../algorithms/rows.ts';
import { microBatchesFor, shuffled, split } from '../data/batching.ts';
import type { Datum } from '../update-request.ts';
import type { TokenSequence } from '../model/token-batch.ts';
import type { Sample } from './sample.ts';

/** What a pass needs of a sequence. */
export interface PassSequence {
  readonly sample: Omit<Sample, 'datum'>;
  readonly tokens: readonly number[];
  readonly mask: readonly number[];
  /** Same as the datum's. */
  readonly temperatures?: readonly number[];
  /** Scaled for the reduction over the minibatch. */
  readonly advantages: Float64Array;
}

/** A sequence of a minibatch, with its datum. */
export interface PlannedSample extends PassSequence {
  readonly sample: Sample;
}

export interface Minibatch {
  readonly micro: ReadonlyArray<readonly PlannedSample[]>;
  /** Tokens that count, over all micro-batches. */
  readonly tokens: number;
  readonly sequences: number;
}

interface Credited {
  readonly sample: Sample;
  readonly advantages: Float64Array;
}

/** First index of each run of equal keys, then the number of keys. */
function runStarts(keys: readonly string[]): number[] {
  return [...keys.flatMap((key, i) => (key === keys[i - 1] ? [] : [i])), keys.length];
}

const groupOf = ({ sample: { datum } }: Credited): string => datum.credit?.group ?? '';

function scaled(
  items: readonly Credited[],
  settings: UpdateSettings,
  micro: ReadonlyArray<readonly Credited[]>,
): Map<Credited, Float64Array> {
  const reduction: LossReduction = settings.lossReduction ?? 'token_mean';
  const byGroup =
    reduction === 'prompt_mean'
      ? [...items].sort((a, b) => (groupOf(a) < groupOf(b) ? -1 : Number(groupOf(a) > groupOf(b))))
      : micro.flat();
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
  return new Map(
    byGroup.map((item, i) => [item, item.advantages.map((advantage, t) => advantage * (parts[i]?.[t] ?? 0))]),
  );
}

const sequenceOf = ({ tokens, mask, temperatures }: Datum): TokenSequence => ({
  tokens,
  mask,
  ...(temperatures && { temperatures }),
});

function minibatchOf(items: readonly Credited[], settings: UpdateSettings, shards: number): Minibatch {
  const sequences = items.map((item) => ({ item, ...sequenceOf(item.sample.datum) }));
  const micro = microBatchesFor(sequences, settings, shards);
  const advantages = scaled(
    items,
    settings,
    micro.map((one) => one.map(({ item }) => item)),
  );
  return {
    micro: micro.map((one) =>
      one.map(({ item, ...sequence }) => ({
        sample: item.sample,
        ...sequence,
        advantages: advantages.get(item) ?? new Float64Array(0),
      })),
    ),
    tokens: items.reduce((sum, { sample }) => sum + sample.count, 0),
    sequences: items.length,
  };
}

/**
 * The units that are split into minibatches: single sequences, or all sequences of a prompt if the reduction is a mean
 * over prompts.
 */
function unitsOf(items: readonly Credited[], { lossReduction, minibatches }: UpdateSettings): Credited[][] {
  if (lossReduction !== 'prompt_mean' || minibatches === 1) return items.map((item) => [item]);
  const units = new Map<unknown, Credited[]>();
  for (const item of items) {
    const prompt = item.sample.datum.credit?.group ?? item;
    units.set(prompt, [...(units.get(prompt) ?? []), item]);
  }
  return [...units.values()];
}

/** Epochs of minibatches, each divisible into `shards`. `key` is the seed of the order. Errors: `BadReduction`. */
export function planUpdate(
  items: readonly Credited[],
  settings: UpdateSettings,
  key: string,
  shards = 1,
): Minibatch[][] {
  const units = unitsOf(items, settings);
  return Array.from({ length: settings.epochs }, (_, epoch) => {
    const order = shuffled(units.length, `${key} epoch ${epoch}`);
    const shuffledUnits = order.flatMap((i) => (units[i] === undefined ? [] : [units[i]]));
    return split(shuffledUnits, settings.minibatches).map((part) => minibatchOf(part.flat(), settings, shards));
  });
}
