/**
 * Grades one recorded rollout again, by the activity that grades rollouts: its artifact, transcript, answer and state
 * are those of its records, its grader is today's, its sandboxes are fresh. A verdict is recorded once; a failure is
 * not, so that the next call tries again.
 */

import { asyncLocalStorage, type Context } from '@temporalio/activity';
import { createRewardActivities, type RewardDeps } from '../../activities/reward/reward.ts';
import type { FailureClass } from '../../protocol/finish-reason.ts';
import type { OutcomeRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import type { Asking, CollectOutcome, ObjectRef, RewardInput, Verdict } from '../../protocol/stages.ts';
import { turnsOf } from '../../store/read-records.ts';
import type { Store } from '../../store/store.ts';
import { hasSandbox } from '../../tasks/environment.ts';
import type { LoadedTask } from '../../tasks/task-loader.ts';
import { secondId, secondRecords } from './second-records.ts';
import { stepsAgain } from './steps-again.ts';

export interface Grade {
  readonly reward: number;
  readonly passed: boolean;
  readonly reason: string;
}

/** A rollout and what became of it. `before`: `null` if it was not graded. */
export type Regraded = {
  readonly rollout: string;
  readonly task: string;
  readonly before: Grade | null;
  /** Why it was not graded the first time. */
  readonly failure: FailureClass | null;
} & (
  | { readonly status: 'same' | 'changed'; readonly after: Grade }
  /**
   * `failed`: the grader gave no verdict. `refused`: its kind cannot be graded again. `skipped`: it did not end itself.
   */
  | { readonly status: 'failed' | 'refused' | 'skipped'; readonly after: null; readonly why: string }
);

export interface AgainDeps extends Omit<RewardDeps, 'store'> {
  readonly store: Store;
  /** Of this second grading: small letters and dashes. */
  readonly name: string;
  /** Whose rollouts these are: a run, or an eval as `eval/ID`. */
  readonly of: string;
  /** Today's tasks. Absent: the tasks' keys start with names of environments. */
  readonly catalogOf: (outcome: OutcomeRecord) => ObjectRef | undefined;
  readonly asking: Asking;
}

/** Failures after which everything that a grader needs is on record. */
const UNGRADED: ReadonlySet<string> = new Set<FailureClass>(['grader-failed', 'judge-unavailable']);

/** The second grading's input. `undefined`: the rollout did not come to its grading. */
async function inputOf(
  outcome: OutcomeRecord,
  { store, name, catalogOf, asking }: AgainDeps,
): Promise<RewardInput | undefined> {
  const { rollout, task, attempt, turns, finish, status, failure } = outcome;
  if (finish === null || (status === 'failed' && !UNGRADED.has(failure ?? ''))) return undefined;
  const catalog = catalogOf(outcome);
  const first = { run: '', rollout, attempt, task };
  const collected = await store.get<CollectOutcome>(keys.collect(first));
  return {
    run: `again/${name}`,
    rollout: secondId(rollout, name),
    attempt,
    task,
    ...(catalog && { catalog }),
    ...asking,
    ...(collected && { artifact: collected.artifact }),
    finish,
    turns,
  };
}

/** Why this task's rollout cannot be graded again; `undefined` if it can. */
async function refusalOf(
  input: RewardInput,
  { task, source }: LoadedTask,
  of: string,
  store: Store,
): Promise<string | undefined> {
  if (task.gradedIn === 'agents')
    return (
      `${source} is graded in the agent's own sandboxes (gradedIn: agents), and they are gone: an eval with ` +
      `policies: [replay:${of}] runs the calls again in new ones, and grades there`
    );
  if (hasSandbox(task) && task.collect !== undefined && input.artifact === undefined)
    return 'its artifact is not on record';
  const turns = await turnsOf(store, input, input.turns);
  const hasSteps = turns.some(({ command }) => command?.do === 'step');
  if (hasSteps && task.stepIsPure !== true)
    return (
      `the step of ${source} is not declared pure: give stepIsPure: true if it depends on state and message alone, ` +
      `or play the rollouts again by an eval with policies: [replay:${of}]`
    );
  return undefined;
}

/** Runs the activity once, without retries. */
function inActivity<T>(signal: AbortSignal, body: () => Promise<T>): Promise<T> {
  const context = { info: {}, heartbeat: () => undefined, cancellationSignal: signal };
  return asyncLocalStorage.run(context as unknown as Context, body);
}

function innermost(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof Error && cause.message !== '') return innermost(cause);
  return error instanceof Error ? error.message : String(error);
}

async function verdictOf(
  input: RewardInput,
  loaded: LoadedTask,
  deps: AgainDeps,
  signal: AbortSignal,
): Promise<Verdict> {
  const store = secondRecords(deps.store, deps.name);
  if (loaded.task.stepIsPure && (await store.get(keys.verdict(input))) === undefined)
    await stepsAgain(input, loaded, store, signal);
  return inActivity(signal, () => createRewardActivities({ ...deps, store }).computeReward(input));
}

/** Errors: only the signal's. */
export async function gradeAgain(outcome: OutcomeRecord, deps: AgainDeps, signal: AbortSignal): Promise<Regraded> {
  const { rollout, task, status, reward, passed, reason, failure } = outcome;
  const before = status === 'graded' ? { reward: reward ?? 0, passed, reason } : null;
  const base = { rollout, task, before, failure };
  const without = (how: 'failed' | 'refused' | 'skipped', why: string): Regraded => ({
    ...base,
    status: how,
    after: null,
    why,
  });
  try {
    const input = await inputOf(outcome, deps);
    if (input === undefined) return without('skipped', `it failed before its grading: ${failure ?? 'internal'}`);
    const loaded = await deps.tasks.load(input);
    const refusal = await refusalOf(input, loaded, deps.of, secondRecords(deps.store, deps.name));
    if (refusal !== undefined) return without('refused', refusal);
    const verdict = await verdictOf(input, loaded, deps, signal);
    if (verdict.code !== 'graded') return without('failed', verdict.reason);
    const after = { reward: verdict.reward, passed: verdict.passed, reason: verdict.reason };
    const isSame = before !== null && before.reward === after.reward && before.passed === after.passed;
    return { ...base, status: isSame ? 'same' : 'changed', after };
  } catch (error) {
    if (signal.aborted) throw error;
    return without('failed', innermost(error));
  }
}
