/**
 * From a step's rollouts to training data: every rollout is trained, masked or dropped, with its reason, and only the
 * valid ones enter their group's baseline.
 */

import type { Store } from '../store/store.ts';
import { comparesGroups } from '../trainer/algorithms/advantages/registry.ts';
import { keepVarying } from '../trainer/algorithms/filters/zero-variance.ts';
import type { Datum } from '../trainer/engine.ts';
import { mergeTransitions, type Transition } from '../trainer/merge-transitions.ts';
import type { AlgorithmSettings, UpdateInput } from '../workflows/types.ts';
import { rolloutIds } from '../workflows/rollout-ids.ts';
import { type GenerateRecord, keys, type OutcomeRecord, turnsOf } from './records.ts';
import { type Member, rolloutMetrics } from './rollout-metrics.ts';

export type Fate =
  | { readonly event: 'trained'; readonly reason: '' }
  | { readonly event: 'masked' | 'dropped'; readonly reason: string };

export interface TrainingData {
  readonly data: readonly Datum[];
  readonly fates: ReadonlyMap<string, Fate>;
  readonly outcomes: readonly OutcomeRecord[];
  /** Groups that were trained on. */
  readonly groups: number;
  readonly valid: number;
  readonly sampledTokens: number;
  /** Times a template rewrote the past, so that a rollout became several training sequences. */
  readonly prefixBreaks: number;
  /** Of the valid rollouts, by name. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** The model calls of one attempt as transitions: all ids seen, the ids said. Empty calls teach nothing. */
export function transitionsOf(turns: readonly GenerateRecord[]): Transition[] {
  const transitions: Transition[] = [];
  let context: number[] = [];
  for (const { appended, reset, sampled, logprobs, version } of turns) {
    const observation = [...(reset ? [] : context), ...appended];
    if (sampled.length > 0) transitions.push({ observation, action: sampled, logprobs, version });
    context = [...observation, ...sampled];
  }
  return transitions;
}

async function memberOf(rollout: string, store: Store): Promise<Member | string> {
  const outcome = await store.get<OutcomeRecord>(keys.outcome(rollout));
  if (!outcome) return 'no-outcome';
  if (outcome.status === 'failed') return outcome.failure ?? 'internal';
  const turns = await turnsOf(store, outcome);
  // Without ids or their log-probabilities there is no ratio to clip: such a rollout is no training data.
  if (turns.some(({ untrainable }) => untrainable !== undefined)) return 'no-logprobs';
  return { outcome, turns };
}

/** Why a whole group is not trained on; `undefined` when it is. */
function uselessness(members: readonly Member[], enough: boolean, { advantage, zeroVarianceFilter = true }: AlgorithmSettings): string | undefined {
  if (enough) return 'surplus';
  if (members.length < (comparesGroups(advantage) ? 2 : 1)) return 'group-too-small';
  const rewards = members.map((m) => m.outcome.reward ?? 0);
  const varies = keepVarying({ rewards, groups: rewards.map(() => '') }, 0).length > 0;
  return zeroVarianceFilter && !varies ? 'zero-variance' : undefined;
}

/** A rollout's sequences; where it is not to be learnt from, one without a token, which stands for it in the baseline. */
function dataOf({ outcome, turns }: Member, learnt: boolean): Datum[] {
  const credit = { reward: outcome.reward ?? 0, group: outcome.task, rollout: outcome.rollout };
  if (!learnt) return [{ tokens: [], mask: [], logprobs: [], credit }];
  return mergeTransitions(transitionsOf(turns)).map((merged) => ({ ...merged, credit }));
}

/**
 * What a step's groups teach. With `wanted`, the first so many groups that vary are trained on, in the order of their
 * tasks: which ones that are does not depend on which of them happened to be drawn beyond need.
 */
export async function trainingDataOf(
  { batch, tasks, samples, wanted, algorithm }: Pick<UpdateInput, 'batch' | 'tasks' | 'samples' | 'wanted' | 'algorithm'>,
  store: Store,
): Promise<TrainingData> {
  const fates = new Map<string, Fate>();
  const data: Datum[] = [];
  let groups = 0;
  let sampledTokens = 0;
  let prefixBreaks = 0;
  const judged: Member[] = [];
  for (const task of tasks) {
    const members: Member[] = [];
    for (const rollout of rolloutIds(batch, [task], samples)) {
      const member = await memberOf(rollout, store);
      if (typeof member === 'string') fates.set(rollout, { event: 'masked', reason: member });
      else members.push(member);
    }
    const useless = uselessness(members, groups === wanted, algorithm);
    if (useless !== 'surplus') judged.push(...members);
    for (const turn of members.flatMap((m) => m.turns)) {
      sampledTokens += turn.sampled.length;
      if (turn.reset) prefixBreaks += 1;
    }
    if (useless !== undefined) {
      for (const { outcome } of members) fates.set(outcome.rollout, { event: 'dropped', reason: useless });
      continue;
    }
    groups += 1;
    for (const member of members) {
      const learnt = !algorithm.overlongFilter || member.outcome.finish === 'finish-tool';
      data.push(...dataOf(member, learnt));
      fates.set(member.outcome.rollout, learnt ? { event: 'trained', reason: '' } : { event: 'masked', reason: 'overlong' });
    }
  }
  const outcomes = judged.map(({ outcome }) => outcome);
  const metrics = rolloutMetrics(judged, samples);
  return { data, fates, outcomes, groups, valid: outcomes.length, sampledTokens, prefixBreaks, metrics };
}
