/** Names of evals and single rollouts, in the store and on Temporal. */

import { UserInputError } from '../../client/errors.ts';
import type { ReadModel } from '../../reports/read-model/read-model.ts';
import type { RunRow } from '../../reports/read-model/queries.ts';
import type { Longhaul } from '../../client/longhaul.ts';
import { didYouMean, lastPart, someOf } from './names.ts';

/** Prefix of single rollouts' ids, unless a program chose the id. */
export const SINGLE = 'rollout/';

export const isSingleRollout = (id: string): boolean => id.startsWith(SINGLE);

/** Names of runs, or of evals as `eval/ID`, sorted. */
export async function runNames(model: ReadModel, kind: RunRow['kind']): Promise<string[]> {
  const rows = (await model.runs()).filter((row) => row.kind === kind);
  return rows.map(({ name }) => name).toSorted((a, b) => (a < b ? -1 : 1));
}

/** What to give instead of a name that none of `names` is. That both are evals does not make them alike. */
export function otherName(given: string, names: readonly string[]): string {
  if (names.length === 0) return 'there is no run and no eval yet';
  return `${didYouMean(lastPart(given), names)}give one of ${someOf(names)}`;
}

/** The error for what is no run and no eval (`eval/ID`). */
export async function unknownName(given: string, model: ReadModel): Promise<UserInputError> {
  const [rollout] = await model.rollouts({ rollout: given });
  if (rollout === undefined) {
    const names = [...(await runNames(model, 'run')), ...(await runNames(model, 'eval'))];
    return new UserInputError('RUN', given, otherName(given, names));
  }
  const { run, task } = rollout;
  const remedy =
    run === given
      ? `give a run or eval/ID: this is a single rollout, which belongs to none (npx longhaul trajectory ${given})`
      : `give ${run}, to which this rollout belongs, with --task ${task} where the command has that option`;
  return new UserInputError('RUN', given, remedy);
}

/** Ids of single rollouts that have ended. */
export function rolloutNames(model: ReadModel): Promise<string[]> {
  return endedNames(model, SINGLE);
}

/** Ids of rollouts that have ended and start with `prefix`. */
export async function endedNames(model: ReadModel, prefix: string): Promise<string[]> {
  const rows = await model.rollouts({ prefix });
  return rows.filter(({ status }) => status !== 'running').map(({ rollout }) => rollout);
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
  const query =
    "WorkflowType = 'rollout' AND ParentWorkflowId IS " +
    `NULL${onlyRunning ? " AND ExecutionStatus = 'Running'" : ''}`;
  const found: SingleRollout[] = [];
  for await (const { workflowId, status, startTime } of client.workflow.list({ query })) {
    found.push({ id: workflowId, status: status.name.toLowerCase(), startedAt: startTime.toISOString() });
  }
  return found;
}
