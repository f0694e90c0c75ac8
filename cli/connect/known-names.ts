/** Names of evals and single rollouts, in the store and on Temporal. */

import { type EvalRecord, evalRun } from '../../reports/evaluation/eval-records.ts';
import { keys, type OutcomeRecord } from '../../protocol/records.ts';
import type { Store } from '../../store/store.ts';
import type { Longhaul } from '../../client/longhaul.ts';

/** Prefix of single rollouts' ids, unless a program chose the id. */
export const SINGLE = 'rollout/';

export const isSingleRollout = (id: string): boolean => id.startsWith(SINGLE);

export async function evalNames(store: Store): Promise<string[]> {
  return (await store.list<EvalRecord>('eval:')).map(({ value }) => evalRun(value.eval));
}

/** Ids of single rollouts that have ended. */
export async function rolloutNames(store: Store): Promise<string[]> {
  return (await store.list<OutcomeRecord>(keys.outcome(SINGLE))).map(({ value }) => value.rollout);
}

export interface SingleRollout {
  readonly id: string;
  /** Temporal's status in lower case. */
  readonly status: string;
  /** ISO 8601. */
  readonly startedAt: string;
}

/** Rollouts that no run and no eval started, within Temporal's retention. */
export async function singleRollouts({ client }: Longhaul, onlyRunning = false): Promise<SingleRollout[]> {
  const query = `WorkflowType = 'rollout' AND ParentWorkflowId IS NULL${onlyRunning ? " AND ExecutionStatus = 'Running'" : ''}`;
  const found: SingleRollout[] = [];
  for await (const { workflowId, status, startTime } of client.workflow.list({ query })) {
    found.push({ id: workflowId, status: status.name.toLowerCase(), startedAt: startTime.toISOString() });
  }
  return found;
}
