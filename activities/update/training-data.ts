/**
 * From a step's rollouts to training data: every rollout is trained, masked or dropped, with its reason, and only the
 * valid ones enter their group's baseline.
 */

import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Store } from '../../store/store.ts';
import type { UpdateInput } from '../../protocol/update.ts';
import type { OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { manifestOf, readCatalog, turnRewardsOf, turnsOf } from '../../store/read-records.ts';
import { StoreCorrupt } from '../../store/disk-errors.ts';
import type { Datum } from '../../trainer/update-request.ts';
import { mergeTransitions, transitionsOf } from '../../trainer/data/merge-transitions.ts';
import type { AlgorithmSettings } from '../../protocol/run-config.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import { copiesOf, type Group, groupRewardsOf, isLearnt, judge } from './choose-groups.ts';
import { type Member, rolloutMetrics } from './rollout-metrics.ts';
import { samplerMetrics } from './sampler-metrics.ts';
import { asyncMetrics } from './staleness.ts';

export type Fate =
  | { readonly event: 'trained'; readonly reason: '' }
  | { readonly event: 'masked' | 'dropped'; readonly reason: string };

export interface TrainingData {
  readonly data: readonly Datum[];
  readonly fates: ReadonlyMap<string, Fate>;
  readonly outcomes: readonly OutcomeRecord[];
  /** Groups that were trained on. */
  readonly groups: number;
  readonly groupRewards: StepRecord['groupRewards'];
  readonly valid: number;
  readonly sampledTokens: number;
  /** Tokens of the rollouts that are trained on, by the version that sampled them. */
  readonly tokensByVersion: ReadonlyMap<number, number>;
  /** How often a chat template changed earlier tokens, so that a rollout became several training sequences. */
  readonly prefixBreaks: number;
  /** Metrics of the valid rollouts, by name. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** Errors: `StoreCorrupt` for a rollout with a verdict: its outcome was recorded. */
async function withoutOutcome(rollout: string, store: Store): Promise<string> {
  const verdicts = await store.list(`verdict:${rollout}#`);
  if (verdicts.length === 0) return 'no-outcome';
  const key = keys.outcome(rollout);
  throw new StoreCorrupt('', `the record ${key} is missing`, { key });
}

/** The rollout's records, or why it is masked. Versions before `oldest` are too old. Errors: `StoreCorrupt`. */
async function memberOf(rollout: string, oldest: number, store: Store): Promise<Member | string> {
  const outcome = await store.get<OutcomeRecord>(keys.outcome(rollout));
  if (!outcome) return withoutOutcome(rollout, store);
  if (outcome.status === 'failed') return outcome.failure ?? 'internal';
  const recorded = await turnsOf(store, outcome, outcome.turns);
  // A turn that its deadline cut off may have been recorded since: every attempt of an update must see the same turns.
  const turns = outcome.finish === 'deadline' ? recorded.slice(0, outcome.turns) : recorded;
  // Without ids or their log-probabilities there is no ratio to clip: such a rollout is not training data.
  if (
    turns.some(({ untrainable, sampled, logprobs }) => untrainable !== undefined || logprobs.length !== sampled.length)
  )
    return 'no-logprobs';
  if (turns.some(({ version, sampled }) => sampled.length > 0 && version < oldest)) return 'too-stale';
  const rewarded = await turnRewardsOf(store, outcome, turns);
  return { outcome, turns, ...(rewarded && { turnRewards: rewarded }) };
}

/**
 * A rollout's sequences. If it is not learnt from: one sequence without tokens, which represents it in the baseline.
 * `copy` distinguishes a rollout of a copied group from the original.
 */
function dataOf(member: Member, group: string, learnt: boolean, copy = ''): Datum[] {
  const { outcome, turns, turnRewards } = member;
  const credit = { reward: outcome.reward ?? 0, group: group + copy, rollout: outcome.rollout + copy };
  if (!learnt) return [{ tokens: [], mask: [], logprobs: [], credit }];
  return mergeTransitions(transitionsOf(turns, turnRewards)).map(({ rewards, ...merged }) => ({
    ...merged,
    credit: rewards ? { ...credit, turns: rewards } : credit,
  }));
}

type TrainingInput = Pick<
  UpdateInput,
  'batches' | 'samples' | 'units' | 'wanted' | 'replace' | 'algorithm' | 'maskStaleness'
> &
  Partial<Pick<UpdateInput, 'policy'>>;

/** Every group that was drawn, in the order of batches and tasks. */
async function groupsOf({ batches, policy, maskStaleness }: TrainingInput, store: Store): Promise<Group[]> {
  const oldest = policy && maskStaleness !== undefined ? policy.version - maskStaleness : 0;
  const groups: Group[] = [];
  for (const batch of batches) {
    for (const { task, rollouts } of (await manifestOf(batch, store)).groups) {
      const members: Member[] = [];
      const masked = new Map<string, string>();
      for (const rollout of rollouts) {
        const member = await memberOf(rollout, oldest, store);
        if (typeof member === 'string') masked.set(rollout, member);
        else members.push(member);
        // Reading is done in this thread: a large step must not delay its own heartbeat.
        await nextTurn();
      }
      groups.push({ batch, task, members, masked });
    }
  }
  return groups;
}

/** Names of all sources of the batches' tasks. */
async function sourcesOf({ batches }: TrainingInput, store: Store): Promise<string[]> {
  const manifests = await Promise.all(batches.map((batch) => manifestOf(batch, store)));
  const refs = new Set(manifests.flatMap(({ catalog }) => catalog ?? []));
  const catalogs = await Promise.all([...refs].map((ref) => readCatalog(ref, store)));
  return catalogs.flatMap(({ sources }) => Object.keys(sources));
}

async function dataOfGroups(
  groups: ReadonlyArray<readonly [Group, string?]>,
  algorithm: AlgorithmSettings,
): Promise<Datum[]> {
  const data: Datum[] = [];
  for (const [{ batch, task, members }, copy] of groups) {
    for (const member of members) {
      data.push(...dataOf(member, `${batch}/${task}`, isLearnt(member, algorithm), copy));
      await nextTurn();
    }
  }
  return data;
}

function fateOf(member: Member, useless: string | undefined, algorithm: AlgorithmSettings): Fate {
  if (useless !== undefined) return { event: 'dropped', reason: useless };
  return isLearnt(member, algorithm) ? { event: 'trained', reason: '' } : { event: 'masked', reason: 'overlong' };
}

function tokensByVersion(members: readonly Member[]): Map<number, number> {
  const tokens = new Map<number, number>();
  for (const { version, sampled } of members.flatMap(({ turns }) => turns))
    tokens.set(version, (tokens.get(version) ?? 0) + sampled.length);
  return tokens;
}

const versionsOf = ({ members }: Group): number[] =>
  members.flatMap(({ turns }) => turns.flatMap(({ version, sampled }) => (sampled.length > 0 ? [version] : [])));

/**
 * Under SkyRL's names: how many groups did not vary and, if rollouts overlap with updates, the staleness of the others.
 */
function groupMetrics(
  { algorithm, units, policy, wanted }: TrainingInput,
  groups: readonly Group[],
  useless: ReadonlyArray<string | undefined>,
): Record<string, number> {
  const alike = useless.filter((reason) => reason === 'zero-variance').length;
  const trained = groups.filter((_, i) => useless[i] === undefined);
  return {
    ...(algorithm.zeroVarianceFilter !== false && { 'reward/num_zero_variance_filtered': alike }),
    ...(units &&
      policy &&
      asyncMetrics(trained.map(versionsOf), policy.version, wanted === undefined ? undefined : alike)),
  };
}

/**
 * The training data of a step's groups. With `wanted`, the first `wanted` groups of each batch that vary are trained
 * on, in the order of their tasks: so the choice does not depend on which groups happened to be drawn beyond need. With
 * `replace`, groups that vary are trained on again in place of those that do not: copies are data, not rollouts, and
 * are in no count of rollouts.
 */
export async function trainingDataOf(input: TrainingInput, store: Store): Promise<TrainingData> {
  const { algorithm, replace, samples } = input;
  const fates = new Map<string, Fate>();
  const groups = await groupsOf(input, store);
  const sources = await sourcesOf(input, store);
  const useless = judge(groups, input);
  for (const [i, { members, masked }] of groups.entries()) {
    for (const [rollout, reason] of masked) fates.set(rollout, { event: 'masked', reason });
    for (const member of members) fates.set(member.outcome.rollout, fateOf(member, useless[i], algorithm));
  }
  const trained = groups.filter((_, i) => useless[i] === undefined);
  const copies = copiesOf(groups, useless, replace);
  const judged = groups.flatMap(({ members }, i) => (useless[i] === 'surplus' ? [] : members));
  const sampled = groups.flatMap(({ members }) => members.map((member) => member.turns));
  const turns = sampled.flat();
  return {
    data: await dataOfGroups([...trained.map((group) => [group] as const), ...copies], algorithm),
    fates,
    outcomes: judged.map(({ outcome }) => outcome),
    groups: trained.length,
    groupRewards: groupRewardsOf(groups, input),
    valid: judged.length,
    sampledTokens: turns.reduce((sum, { sampled }) => sum + sampled.length, 0),
    tokensByVersion: tokensByVersion(
      trained.flatMap(({ members }) => members.filter((member) => isLearnt(member, algorithm))),
    ),
    prefixBreaks: turns.filter(({ reset }) => reset).length,
    metrics: {
      ...rolloutMetrics(judged, { samples, sources }),
      ...groupMetrics(input, groups, useless),
      ...samplerMetrics(sampled),
      ...(replace && { 'reward/num_replaced_groups': copies.length }),
    },
  };
}
