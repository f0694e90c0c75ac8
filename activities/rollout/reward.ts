/**
 * The `reward` queue: grades what was collected, in a fresh sandbox. A grader's own failure is retried in another one
 * and is never a reward.
 */

import { SandboxLost, type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import type { Verdict } from '../../tasks/task.ts';
import { environmentOf } from '../../tasks/registry.ts';
import type { RewardActivities } from '../../workflows/activities.ts';
import type { RewardInput } from '../../workflows/messages/stages.ts';
import { classified, FailedBefore } from '../failures.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { attemptKey, keys, type OutcomeRecord } from '../records.ts';

export interface RewardDeps {
  readonly store: Store;
  readonly provider: SandboxProvider;
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

async function gradeOnce(input: RewardInput, store: Store, provider: SandboxProvider): Promise<Graded> {
  const begun = await store.begin(`reward:${attemptKey(input)}`);
  const artifact = await store.getObject(input.artifact);
  const sandbox = `${attemptKey(input)}/grade-${begun}`;
  const verdict = await environmentOf(input.task).grade(input.task, artifact, provider, sandbox).catch(blameGrader);
  if (verdict.code !== 'graded') throw new GraderFailed(verdict.reason);
  return store.putOnce(keys.verdict(input), verdict);
}

export function createRewardActivities({ store, provider }: RewardDeps): RewardActivities {
  return {
    computeReward: (input) =>
      classified(() =>
        withHeartbeat(async () => {
          const { run, rollout, attempt, task, turns, finish } = input;
          const verdict = (await store.get<Graded>(keys.verdict(input))) ?? (await gradeOnce(input, store, provider));
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
