/**
 * The `reward` queue: grades what was collected, in a fresh sandbox, which ends with the execution that made it. A
 * grader's own failure is retried in another one and is never a reward.
 */

import { LeasedProvider } from '../../sandboxes/leased-provider.ts';
import { GRADER_LEASE, sandboxLeases } from '../../sandboxes/leases.ts';
import { SandboxLost, type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import type { Verdict } from '../../tasks/task.ts';
import { environmentOf } from '../../tasks/registry.ts';
import type { RewardActivities } from '../../workflows/activities.ts';
import type { RewardInput } from '../../workflows/messages/stages.ts';
import { classified, FailedBefore } from '../failures.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { orAborted } from '../or-aborted.ts';
import { attemptKey, keys, type OutcomeRecord } from '../records.ts';

export interface RewardDeps {
  readonly store: Store;
  readonly provider: SandboxProvider;
  readonly host: string;
}

/** The grader, not the policy, is to blame: retried, then masked. */
export class GraderFailed extends Error {
  override readonly name = 'GraderFailed';
}

/** A sandbox that is lost while it grades is none of the rollout's: the next try has another one. */
function blameGrader(error: unknown): never {
  if (error instanceof SandboxLost || error instanceof SandboxUnavailable) throw new GraderFailed(error.message, { cause: error });
  throw error;
}

type Graded = Extract<Verdict, { code: 'graded' }>;

/** Of a grader that is given up, cancelled or not, nothing counts any more: neither its word nor its failure. */
async function gradeOnce(input: RewardInput, { store, provider, host }: RewardDeps, signal: AbortSignal): Promise<Graded> {
  const begun = await store.begin(`reward:${attemptKey(input)}`);
  const artifact = await store.getObject(input.artifact);
  const sandbox = `${attemptKey(input)}/grade-${begun}`;
  const sandboxes = new LeasedProvider(provider, sandboxLeases(store, host, Number.MAX_SAFE_INTEGER, GRADER_LEASE), input.rollout);
  try {
    const verdict = await orAborted(() => environmentOf(input.task).grade(input.task, artifact, sandboxes, sandbox).catch(blameGrader), signal);
    if (verdict.code !== 'graded') throw new GraderFailed(verdict.reason);
    return await store.putOnce(keys.verdict(input), verdict);
  } finally {
    await sandboxes.end();
  }
}

export function createRewardActivities(deps: RewardDeps): RewardActivities {
  const { store } = deps;
  return {
    computeReward: (input) =>
      classified(() =>
        withHeartbeat(async (signal) => {
          const { run, rollout, attempt, task, turns, finish } = input;
          const verdict = (await store.get<Graded>(keys.verdict(input))) ?? (await gradeOnce(input, deps, signal));
          const outcome = await store.putOnce<OutcomeRecord>(keys.outcome(rollout), {
            rollout,
            task,
            attempt,
            turns,
            status: 'graded',
            reward: verdict.reward,
            passed: verdict.passed,
            finish,
            failure: null,
            reason: verdict.reason,
          });
          if (outcome.status === 'failed') throw new FailedBefore(rollout, outcome.failure ?? 'internal');
          await store.append([{ run, rollout, attempt, event: 'graded', at: new Date().toISOString() }]);
          return verdict;
        }),
      ),
  };
}
