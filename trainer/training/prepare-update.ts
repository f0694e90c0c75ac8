/**
 * The part of an update that needs all of its data, before the first step: log-probabilities of the old policy and the
 * reference, values, advantages, and the plan of the passes. A plan has minibatches (one optimizer step each) of
 * micro-batches (one pass each), with scaled advantages. Nothing is trained here.
 */

import type { LossReduction, UpdateSettings } from '../../protocol/algorithm.ts';
import { reductionScales } from '../algorithms/reductions.ts';
import { ones, parted, startsOf } from '../algorithms/rows.ts';
import type { Trainer, TrainingSession } from '../backend.ts';
import type { Critic } from '../critic/critic.ts';
import { type ValuedSequence, valuedSequences } from '../critic/valued-sequences.ts';
import { microBatchesFor, shuffled, split } from '../data/batching.ts';
import { countTargets, type TokenSequence } from '../model/token-batch.ts';
import type { Datum, UpdateRequest } from '../update-request.ts';
import { advantageMetrics, creditSamples } from './advantages.ts';
import { differenceMetrics, recordedDifferences, ROLLOUT_TRAIN } from './logprob-difference.ts';
import { atTargets, type Sample } from './sample.ts';
import type { PassSequence, Scores } from '../passes.ts';
import { withValues } from './score.ts';
import { recomputesOld } from './settings.ts';

/** The update has no token to train on; its checkpoint would equal the one before. */
export class NothingToTrain extends Error {
  override readonly name = 'NothingToTrain';
}

/** KL is configured without a reference policy. */
export class NoReference extends Error {
  override readonly name = 'NoReference';
}

/** Errors: `NothingToTrain`. */
export function usefulData({ data, toDir }: Pick<UpdateRequest, 'data' | 'toDir'>): Datum[] {
  const useful = data.filter((datum) => countTargets(datum) > 0);
  if (useful.length === 0)
    throw new NothingToTrain(`the ${data.length} sequences for ${toDir} have no token to train on`);
  return useful;
}

/** What computes an update's numbers before its first step. */
export interface Sources {
  readonly trainer: Pick<Trainer, 'score'>;
  readonly session: Pick<TrainingSession, 'forward'>;
  readonly critic?: Critic | undefined;
}

/** The reference's log-probabilities, if KL needs them. Its weights are in memory only while they are computed. */
async function referenceScores(
  { algorithm, referenceDir, fromDir }: UpdateRequest,
  { trainer, session }: Sources,
  useful: readonly Datum[],
  old: Scores | undefined,
): Promise<Scores | undefined> {
  if (algorithm.kl === undefined) return undefined;
  if (referenceDir === undefined)
    throw new NoReference(`algorithm.kl (in: ${algorithm.kl.in}) needs a reference policy`);
  if (referenceDir === fromDir) return old ?? session.forward(useful, algorithm);
  return trainer.score(referenceDir, useful, algorithm);
}

/** Every datum with the log-probabilities of its tokens before the first step. */
async function samplesOf(request: UpdateRequest, sources: Sources, useful: readonly Datum[]): Promise<Sample[]> {
  const { algorithm, data } = request;
  const old = recomputesOld(algorithm) ? await sources.session.forward(useful, algorithm) : undefined;
  const reference = await referenceScores(request, sources, useful, old);
  return data.map((datum) => {
    const recorded = atTargets(datum, datum.logprobs);
    return {
      datum,
      count: recorded.length,
      recorded,
      old: old?.get(datum) ?? recorded,
      reference: reference?.get(datum),
    };
  });
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

/** A sample with its tokens' advantages. */
interface CreditedSample {
  readonly sample: Sample;
  readonly advantages: Float64Array;
}

/** First index of each run of equal keys, then the number of keys. */
function runStarts(keys: readonly string[]): number[] {
  return [...keys.flatMap((key, i) => (key === keys[i - 1] ? [] : [i])), keys.length];
}

const groupOf = ({ sample: { datum } }: CreditedSample): string => datum.credit?.group ?? '';

function scaled(
  items: readonly CreditedSample[],
  settings: UpdateSettings,
  micro: ReadonlyArray<readonly CreditedSample[]>,
): Map<CreditedSample, Float64Array> {
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

function minibatchOf(items: readonly CreditedSample[], settings: UpdateSettings, shards: number): Minibatch {
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
function unitsOf(items: readonly CreditedSample[], { lossReduction, minibatches }: UpdateSettings): CreditedSample[][] {
  if (lossReduction !== 'prompt_mean' || minibatches === 1) return items.map((item) => [item]);
  const units = new Map<unknown, CreditedSample[]>();
  for (const item of items) {
    const prompt = item.sample.datum.credit?.group ?? item;
    units.set(prompt, [...(units.get(prompt) ?? []), item]);
  }
  return [...units.values()];
}

/** Epochs of minibatches, each divisible into `shards`. `key` is the seed of the order. Errors: `BadReduction`. */
export function planUpdate(
  items: readonly CreditedSample[],
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

/** An update whose passes are planned. */
export interface PreparedUpdate {
  readonly epochs: ReadonlyArray<readonly Minibatch[]>;
  readonly tokens: number;
  readonly sequences: number;
  /** The critic's training data; empty without a critic. */
  readonly valued: readonly ValuedSequence[];
  readonly metrics: Readonly<Record<string, number>>;
}

/**
 * Errors: `NothingToTrain`, `NoReference`, `NoCredit`, `NoValues`, `UnknownName`, `TooFewTokens`,
 * those of reading the reference.
 */
export async function prepareUpdate(request: UpdateRequest, sources: Sources, shards = 1): Promise<PreparedUpdate> {
  const { algorithm, toVersion } = request;
  const { critic } = sources;
  const scored = await samplesOf(request, sources, usefulData(request));
  const samples = critic === undefined ? scored : await withValues(critic.model, scored, algorithm);
  const { advantages, returns, metrics } = creditSamples(samples, algorithm);
  const valued = critic === undefined ? [] : valuedSequences(samples, returns);
  const items = samples.flatMap((sample, i) =>
    sample.count > 0 ? [{ sample, advantages: advantages[i] ?? new Float64Array(0) }] : [],
  );
  const epochs = planUpdate(items, algorithm, `update ${toVersion}`, shards);
  const tokens = items.reduce((sum, { sample }) => sum + sample.count, 0);
  const compared = recomputesOld(algorithm) ? differenceMetrics(ROLLOUT_TRAIN, recordedDifferences(samples)) : {};
  return {
    epochs,
    tokens,
    sequences: items.length,
    valued,
    metrics: { ...advantageMetrics(advantages), ...metrics, ...compared },
  };
}
