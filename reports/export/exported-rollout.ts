/**
 * A rollout as an export has it: how it ended, why it is masked if it is, its training sequences. What its records lack
 * (ids, log-probabilities) is absent, never made up.
 */

import type { GenerateRecord, OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { turnRewardsOf, turnsOf } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { transitionsOf } from '../../trainer/data/merge-transitions.ts';
import type { RolloutEnd } from '../rollout-ends.ts';
import { skyrlReasonOf } from './skyrl/finish-reasons.ts';
import { sequencesOf, type SkyrlSequence } from './skyrl/output.ts';

export interface ExportedRollout {
  readonly outcome: OutcomeRecord;
  /** Number in its group. */
  readonly sample: number;
  /** Why nothing is learned from it. `null`: it may be trained on. */
  readonly masked: string | null;
  /** SkyRL-Agent's word for how it ended. */
  readonly finishReason: string;
}

/** With its model calls. */
export interface SequencedRollout extends ExportedRollout {
  /** Turns that a policy sampled. */
  readonly turns: readonly GenerateRecord[];
  readonly sequences: readonly SkyrlSequence[];
  /** True if its turns have texts, and no token ids: an endpoint was asked in chat, or a script was played. */
  readonly lacksIds: boolean;
  /** True if each sampled token has its log-probability. */
  readonly hasLogprobs: boolean;
}

const sampleOf = (rollout: string): number => Number(rollout.slice(rollout.lastIndexOf('/') + 1)) || 0;

/** A rollout without log-probabilities is masked in training by the embedded engine; other trainers may take it. */
const NO_LOGPROBS = 'no-logprobs';

export async function exportedRollout(outcome: OutcomeRecord, store: Store): Promise<ExportedRollout> {
  const { rollout, status, failure } = outcome;
  const base = { outcome, sample: sampleOf(rollout), finishReason: skyrlReasonOf(outcome) };
  if (status === 'failed') return { ...base, masked: failure ?? 'internal' };
  const end = await store.get<RolloutEnd>(keys.end(rollout));
  const reason = end?.event === 'masked' ? (end.detail ?? 'masked') : null;
  return { ...base, masked: reason === NO_LOGPROBS ? null : reason };
}

/** Errors: `StoreCorrupt` if a turn of a graded rollout is missing. */
export async function sequencedRollout(outcome: OutcomeRecord, store: Store): Promise<SequencedRollout> {
  const base = await exportedRollout(outcome, store);
  const isGraded = outcome.status === 'graded';
  const recorded = await turnsOf(store, outcome, isGraded ? outcome.turns : 0);
  // A turn that a deadline cut off may have been recorded later.
  const turns = isGraded ? recorded.slice(0, outcome.turns) : recorded;
  // Without a verdict there is no reward of which the turns' could be parts.
  const rewards = isGraded ? await turnRewardsOf(store, outcome, turns) : undefined;
  const sequences = sequencesOf(transitionsOf(turns, rewards));
  const isSaid = turns.some(({ parsed }) => parsed.kind === 'calls' || parsed.content !== '');
  return {
    ...base,
    turns,
    sequences,
    lacksIds: sequences.length === 0 && isSaid,
    hasLogprobs: sequences.length > 0 && sequences.every(({ logprobs }) => logprobs !== null),
  };
}

/** Errors: `UserInputError` if the turns of the run, or `eval/ID`, were removed. */
export async function refusePrunedTurns(name: string, store: Store, remedy: string): Promise<void> {
  const mark = await store.get<{ readonly at: string }>(keys.pruned(name));
  if (mark !== undefined)
    throw new UserInputError('RUN', name, `its turns were removed by prune at ${mark.at}: ${remedy}`);
}
