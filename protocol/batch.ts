/** The input and the result of a batch of rollouts: names and counts. */

import type { FailureClass } from './finish-reason.ts';
import type { SamplingParameters } from './sampling.ts';
import type { BreakerSettings, End, Trip } from './breaker.ts';
import type { Judges } from './judge.ts';
import type { RolloutPolicy } from './policy.ts';
import type { AgentSettings } from './rollout.ts';
import type { ObjectRef } from './stages.ts';

export interface BatchInput {
  readonly run: string;
  /** The last part of the batch's workflow id: `step-3`, `eval-0-sampled`. */
  readonly name: string;
  readonly step: number;
  readonly tasks: readonly string[];
  /** Says what the tasks' keys mean. Absent: they start with an environment's name. */
  readonly catalog?: ObjectRef;
  readonly samples: number;
  /** Number of the first sample of each task. Absent: 0. */
  readonly firstSample?: number;
  /** Dynamic sampling, `filter`: `tasks` are candidates, started in order until this many groups vary in reward. */
  readonly wanted?: number;
  /** Dynamic sampling, `replace`: `tasks` are candidates, started `groups` at a time until enough groups vary. */
  readonly replace?: ReplaceSettings;
  readonly policy: RolloutPolicy;
  readonly agent: AgentSettings;
  readonly sampling: SamplingParameters;
  readonly judges?: Judges;
  readonly seed: number;
  readonly dispatcher: DispatcherSettings;
  /** The kind of engine that samples. Absent: any. */
  readonly engine?: string;
  /**
   * When to report to the parent that rollouts fail with one class. Absent: never. With `maxConsecutiveFailures: 0` no
   * rollout is held; it is masked instead.
   */
  readonly breaker?: BreakerSettings;
  /** How the last rollouts before this batch ended, oldest first: the breaker counts them too. Absent: none. */
  readonly lately?: readonly End[];
  /** Priority of this batch's queued work if batches share workers. Absent: `train`. */
  readonly priority?: BatchPriority;
  /**
   * The batch's unit number. The run receives the batch's end by a signal, so it may be in a later history by then.
   * Absent: the run waits for the batch.
   */
  readonly unit?: number;
  /** Absent: the batch waits for every rollout. */
  readonly stragglers?: StragglerSettings;
}

/** When a batch stops waiting for its last rollouts. */
export interface StragglerSettings {
  /** Seconds, without pauses, after which all running rollouts are given up. Absent: never. */
  readonly deadlineSeconds?: number;
  /** A group is complete without its last so many members. Absent: 0. */
  readonly completeGroupWithout?: number;
}

/** The default of `minReplaceRatio`. */
export const MIN_REPLACE_RATIO = 0.3;

/** If enough groups vary in reward, copies of these replace the groups that do not vary. */
export interface ReplaceSettings {
  /** Groups that are drawn at a time and trained on. */
  readonly groups: number;
  /** More than this share of the groups must vary. Otherwise all of them are drawn again. */
  readonly minReplaceRatio: number;
}

/** `eval` yields to `train`. A run's own evaluations count as `train`: its next step waits for them. */
export type BatchPriority = 'train' | 'eval';

/** How a batch admits its rollouts. Absent fields take their defaults. */
export interface DispatcherSettings {
  readonly type: 'batch' | 'bounded' | 'pipeline';
  /** `bounded`: most rollouts at once. `pipeline`: most rollouts in agent-run at once. */
  readonly maxParallelAgents?: number;
  /** `pipeline`: most rollouts in reward at once. Absent: as many as in agent-run. */
  readonly maxEvalParallelAgents?: number;
}

/** When a rollout ended, in milliseconds since the epoch, and how. */
export type TimedEnd = readonly [at: number, end: End];

export interface BatchResult {
  /** The first so many of the batch's tasks were rolled out. Fewer than all only with dynamic sampling. */
  readonly groups: number;
  readonly rollouts: number;
  readonly graded: number;
  readonly passed: number;
  readonly rewardSum: number;
  readonly failures: Readonly<Partial<Record<FailureClass, number>>>;
  /** By failure class: the message of the last rollout that failed with it. Absent if none failed. */
  readonly said?: Readonly<Partial<Record<FailureClass, string>>>;
  /** How the last rollouts ended, in order, starting at the first failure among them. Absent without a breaker. */
  readonly ends?: readonly TimedEnd[];
  /** Duration without pauses. */
  readonly seconds: number;
}

/** The answer to a batch's `status` query. */
export interface BatchStatus {
  readonly total: number;
  readonly started: number;
  readonly ended: number;
  readonly passed: number;
  readonly failed: number;
  /** True if the batch is paused: rollouts stop before their next turn, and no rollout starts. */
  readonly paused: boolean;
  /** Why the batch paused by itself: one of its rollouts is held. Absent: it did not. */
  readonly tripped?: Trip;
}
