/** What a batch of rollouts is asked for and what it answers: names and counts. */

import type { FailureClass } from './finish-reason.ts';
import type { SamplingParameters } from './sampling.ts';
import type { BreakerSettings, End, Trip } from './breaker.ts';
import type { RolloutPolicy } from './policy.ts';
import type { AgentSettings } from './rollout.ts';

export interface BatchInput {
  readonly run: string;
  /** `step-3`, `eval-0-sampled`: the last part of the batch's workflow id. */
  readonly name: string;
  readonly step: number;
  readonly tasks: readonly string[];
  readonly samples: number;
  /** Number of the first sample of each task; absent: 0. */
  readonly firstSample?: number;
  /** Dynamic sampling: groups that must vary; then `tasks` are candidates, begun in their order until so many do. */
  readonly wanted?: number;
  /** Dynamic sampling: then `tasks` are candidates, and so many at a time begin until enough of these vary. */
  readonly replace?: ReplaceSettings;
  readonly policy: RolloutPolicy;
  readonly agent: AgentSettings;
  readonly sampling: SamplingParameters;
  readonly seed: number;
  readonly dispatcher: DispatcherSettings;
  /** When to tell the parent that rollouts fail alike; absent: never. With `maxConsecutiveFailures: 0` nothing is held either: what would be is masked. */
  readonly breaker?: BreakerSettings;
  /** How the last rollouts before this batch's ended, oldest first: the breaker goes on from these. Absent: from nothing. */
  readonly lately?: readonly End[];
  /** Which queued work goes first where batches share workers; absent: `train`. */
  readonly priority?: BatchPriority;
  /** Number of the unit that it is: its run receives its end by a signal, in whatever history. Absent: the run waits for the batch. */
  readonly unit?: number;
  /** Absent: every rollout is waited for. */
  readonly stragglers?: StragglerSettings;
}

/** Which rollouts a batch no longer waits for. */
export interface StragglerSettings {
  /** Seconds, without pauses, after which all rollouts that have not ended are given up; absent: never. */
  readonly deadlineSeconds?: number;
  /** A group is complete without so many of its members, whichever come last; absent: 0. */
  readonly completeGroupWithout?: number;
}

/** The default. */
export const MIN_REPLACE_RATIO = 0.3;

/** Groups that do not vary are replaced by copies of some that do, where enough do. */
export interface ReplaceSettings {
  /** That are drawn at a time, and trained on. */
  readonly groups: number;
  /** More than this share of them must vary, or they are all drawn again. */
  readonly minReplaceRatio: number;
}

/** `eval` yields to `train`. A run's own evaluations count as `train`: its next step waits for them. */
export type BatchPriority = 'train' | 'eval';

/** How a batch lets its rollouts in; what is absent takes its default. */
export interface DispatcherSettings {
  readonly type: 'batch' | 'bounded' | 'pipeline';
  /** `bounded`: rollouts at once. `pipeline`: rollouts in agent-run at once. */
  readonly maxParallelAgents?: number;
  /** `pipeline`: rollouts in reward at once; absent: as many as in agent-run. */
  readonly maxEvalParallelAgents?: number;
}

/** When a rollout ended, in milliseconds since the epoch, and how. */
export type TimedEnd = readonly [at: number, end: End];

export interface BatchResult {
  /** Of the batch's tasks, the first so many were rolled out: all, but with dynamic sampling. */
  readonly groups: number;
  readonly rollouts: number;
  readonly graded: number;
  readonly passed: number;
  readonly rewardSum: number;
  readonly failures: Readonly<Partial<Record<FailureClass, number>>>;
  /** What the last rollout that failed so said; absent where none failed. */
  readonly said?: Readonly<Partial<Record<FailureClass, string>>>;
  /** How the last ones ended, in their order, from the first failure among them on; absent without a breaker. */
  readonly ends?: readonly TimedEnd[];
  /** Without pauses. */
  readonly seconds: number;
}

/** What a batch answers to the query `status`. */
export interface BatchStatus {
  readonly total: number;
  readonly started: number;
  readonly ended: number;
  readonly passed: number;
  readonly failed: number;
  /** Rollouts stop before their next turn, and none begins. */
  readonly paused: boolean;
  /** Why it paused by itself: one of its rollouts is held. Absent: it did not. */
  readonly tripped?: Trip;
}
