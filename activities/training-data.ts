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
  /** Tokens of the rollouts that are trained on, by the version that sampled them. */
  readonly tokensByVersion: ReadonlyMap<number, number>;
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

/** Versions before `oldest` are too old. */
async function memberOf(rollout: string, oldest: number, store: Store): Promise<Member | string> {
  const outcome = await store.get<OutcomeRecord>(keys.outcome(rollout));
  if (!outcome) return 'no-outcome';
  if (outcome.status === 'failed') return outcome.failure ?? 'internal';
  const turns = await turnsOf(store, outcome);
  // Without ids or their log-probabilities there is no ratio to clip: such a rollout is no training data.
  if (turns.some(({ untrainable, sampled, logprobs }) => untrainable !== undefined || logprobs.length !== sampled.length)) return 'no-logprobs';
  if (turns.some(({ version, sampled }) => sampled.length > 0 && version < oldest)) return 'too-stale';
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
function dataOf({ outcome, turns }: Member, group: string, learnt: boolean): Datum[] {
  const credit = { reward: outcome.reward ?? 0, group, rollout: outcome.rollout };
  if (!learnt) return [{ tokens: [], mask: [], logprobs: [], credit }];
  return mergeTransitions(transitionsOf(turns)).map((merged) => ({ ...merged, credit }));
}

type TrainingInput = Pick<UpdateInput, 'batch' | 'tasks' | 'further' | 'samples' | 'wanted' | 'algorithm' | 'maskStaleness'> &
  Partial<Pick<UpdateInput, 'policy'>>;

/**
 * What a step's groups teach. With `wanted`, of each batch the first so many groups that vary are trained on, in the
 * order of their tasks: which ones that are does not depend on which of them happened to be drawn beyond need.
 */
export async function trainingDataOf(
  { batch, tasks, further = [], samples, wanted, algorithm, policy, maskStaleness }: TrainingInput,
  store: Store,
): Promise<TrainingData> {
  const fates = new Map<string, Fate>();
  const data: Datum[] = [];
  const judged: Member[] = [];
  const tokensByVersion = new Map<number, number>();
  const oldest = policy && maskStaleness !== undefined ? policy.version - maskStaleness : 0;
  const counted = new Map<string, number>();
  let groups = 0;
  let sampledTokens = 0;
  let prefixBreaks = 0;
  for (const [from, task] of [{ batch, tasks }, ...further].flatMap((one) => one.tasks.map((each) => [one.batch, each] as const))) {
    const members: Member[] = [];
    for (const rollout of rolloutIds(from, [task], samples)) {
      const member = await memberOf(rollout, oldest, store);
      if (typeof member === 'string') fates.set(rollout, { event: 'masked', reason: member });
      else members.push(member);
    }
    const useless = uselessness(members, (counted.get(from) ?? 0) === wanted, algorithm);
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
    counted.set(from, (counted.get(from) ?? 0) + 1);
    for (const member of members) {
      const learnt = !algorithm.overlongFilter || member.outcome.finish === 'finish-tool';
      data.push(...dataOf(member, `${from}/${task}`, learnt));
      for (const { version, sampled } of learnt ? member.turns : []) tokensByVersion.set(version, (tokensByVersion.get(version) ?? 0) + sampled.length);
      fates.set(member.outcome.rollout, learnt ? { event: 'trained', reason: '' } : { event: 'masked', reason: 'overlong' });
    }
  }
  const outcomes = judged.map(({ outcome }) => outcome);
  const metrics = rolloutMetrics(judged, samples);
  return { data, fates, outcomes, groups, valid: outcomes.length, sampledTokens, tokensByVersion, prefixBreaks, metrics };
}
