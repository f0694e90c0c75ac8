/**
 * The part of an update that needs all of its data, before the first step: log-probabilities of the old policy and the
 * reference, values, advantages, and the plan of the passes. Nothing is trained here.
 */

import type { Trainer, TrainingSession } from '../backend.ts';
import type { Critic } from '../critic/critic.ts';
import { type ValuedSequence, valuedSequences } from '../critic/valued-sequences.ts';
import { countTargets } from '../model/token-batch.ts';
import type { Datum, UpdateRequest } from '../update-request.ts';
import { advantageMetrics, creditSamples } from './advantages.ts';
import { differenceMetrics, recordedDifferences, ROLLOUT_TRAIN } from './logprob-difference.ts';
import { type Minibatch, planUpdate } from './plan.ts';
import { atTargets, type Sample } from './sample.ts';
import type { Scores } from '../passes.ts';
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
