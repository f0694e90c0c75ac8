/**
 * An evaluation in numbers: failed rollouts stay in the denominator and are counted by reason, so that a change of the
 * infrastructure's failures cannot pass for a change of the policy.
 */

import type { Store } from '../../store/store.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { EvaluationRecord } from '../../protocol/step-record.ts';
import type { OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { ObjectRef } from '../../protocol/stages.ts';
import { manifestOf } from '../../store/read-records.ts';
import { scoresOf } from '../../reports/evaluation/evaluation-metrics.ts';
import { type RolloutEnd, recordEnds } from '../../reports/rollout-ends.ts';

export interface EvaluationInput {
  readonly run: string;
  /** Batches: the one that was sampled at temperature 1, and the greedy one. */
  readonly sampled: string;
  readonly greedy: string | null;
}

export interface EvaluationDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
}

interface Member {
  readonly task: string;
  readonly catalog?: ObjectRef;
  readonly rollout: string;
  readonly outcome: OutcomeRecord | undefined;
}

async function membersOf(batch: string, store: Store): Promise<Member[]> {
  const { groups, catalog } = await manifestOf(batch, store);
  const named = catalog === undefined ? {} : { catalog };
  const members = groups.flatMap(({ task, rollouts }) => rollouts.map((rollout) => ({ task, ...named, rollout })));
  return Promise.all(
    members.map(async (member) => ({
      ...member,
      outcome: await store.get<OutcomeRecord>(keys.outcome(member.rollout)),
    })),
  );
}

/** Why a rollout was not graded; `undefined` if it was. */
function failureOf({ outcome }: Member): string | undefined {
  if (!outcome) return 'no-outcome';
  return outcome.status === 'failed' ? (outcome.failure ?? 'internal') : undefined;
}

function passRate(members: readonly Member[]): number {
  return members.filter(({ outcome }) => outcome?.passed).length / members.length;
}

async function byFamily(sampled: readonly Member[], tasks: TaskLoader): Promise<EvaluationRecord['byFamily']> {
  const groups = new Map<string, Member[]>();
  for (const member of sampled) {
    const { family } = await tasks.load(member);
    groups.set(family, [...(groups.get(family) ?? []), member]);
  }
  return Object.fromEntries(
    [...groups]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([family, list]) => [family, { rollouts: list.length, passRate: passRate(list) }]),
  );
}

function endOf(run: string, member: Member, at: string): RolloutEnd {
  const { rollout, outcome } = member;
  const failure = failureOf(member);
  const end = { run, rollout, attempt: outcome?.attempt ?? 1, at };
  return failure === undefined ? { ...end, event: 'evaluated' } : { ...end, event: 'masked', detail: failure };
}

/** Ends the evaluation's rollouts, graded ones as `evaluated` and failed ones as `masked`, and counts them. */
export async function summariseEvaluation(
  { run, sampled, greedy }: EvaluationInput,
  { store, tasks }: EvaluationDeps,
): Promise<EvaluationRecord> {
  const members = await membersOf(sampled, store);
  const greedyMembers = greedy === null ? [] : await membersOf(greedy, store);
  const at = new Date().toISOString();
  await recordEnds(
    store,
    [...members, ...greedyMembers].map((member) => endOf(run, member, at)),
  );
  const graded = members.filter((member) => failureOf(member) === undefined);
  const failed: Record<string, number> = {};
  for (const reason of members.map(failureOf)) if (reason !== undefined) failed[reason] = (failed[reason] ?? 0) + 1;
  const scores = scoresOf(graded.map(({ outcome }) => outcome?.reward ?? 0));
  return {
    passRate: passRate(members),
    gradedPassRate: graded.length > 0 ? passRate(graded) : null,
    failed,
    ...(scores && { scores }),
    greedyPassRate: greedy === null ? null : passRate(greedyMembers),
    rollouts: members.length,
    byFamily: await byFamily(members, tasks),
  };
}
