/** What a rollout is asked for and what it answers: never a transcript. */

import { OUTAGE_SECONDS } from './failure-policy.ts';
import type { FailureClass, FinishReason } from './finish-reason.ts';
import type { SamplingParameters } from './sampling.ts';
import type { GivenEndpointPolicy, PolicyRef } from './policy.ts';

export interface AgentSettings {
  readonly maxTurns: number;
  /** Prompt, observations and sampled tokens together. */
  readonly maxContextTokens: number;
  /** Seconds that one tool call may take. */
  readonly toolTimeoutSeconds: number;
  /** Seconds that a rollout may spend on its turns, from its first sandbox on; pauses and gates do not count. Absent: a week. */
  readonly deadlineSeconds?: number;
  /**
   * What becomes of a rollout then. `grade`: as it stands, where the policy itself (sampling and tools) spent at least half
   * of the time, and masked otherwise. `mask`: always masked. Absent: `grade`, so that wasting time escapes no reward.
   */
  readonly atDeadline?: 'grade' | 'mask';
}

export const DEFAULT_AGENT: Required<AgentSettings> = {
  maxTurns: 30,
  maxContextTokens: 32_768,
  toolTimeoutSeconds: 120,
  deadlineSeconds: OUTAGE_SECONDS,
  atDeadline: 'grade',
};

export const DEFAULT_SAMPLING: SamplingParameters = { temperature: 1, topP: 1, topK: 0, maxTokens: 4096 };

/** One rollout; what is absent takes its default, so that any Temporal client can start one with `task` and `policy`. */
export interface RolloutInput {
  readonly task: string;
  /** Of an endpoint, `baseUrl` and `model` suffice. */
  readonly policy: PolicyRef | GivenEndpointPolicy;
  readonly agent?: Partial<AgentSettings>;
  readonly sampling?: Partial<SamplingParameters>;
  /** `run` and `step` name what it belongs to; a rollout of its own belongs to the run of its own id. */
  readonly run?: string;
  readonly step?: number;
  readonly sample?: number;
  readonly seed?: number;
  /** Stages that begin only when the parent sends `proceed`; where there is one, the parent hears of every stage's end. */
  readonly gates?: readonly GatedStage[];
  /** The parent hears of the end by the signal `rolloutEnded` too, since it may be in another history by then. */
  readonly reportsEnd?: boolean;
  /** Whether it stands still, and is resumed, where nothing can go on (`hold` in the table of failures); false: it is masked. Absent: true. */
  readonly holds?: boolean;
}

export type Stage = 'init' | 'agent-run' | 'reward';

export type GatedStage = Exclude<Stage, 'init'>;

export interface RolloutResult {
  readonly rollout: string;
  readonly task: string;
  readonly status: 'graded' | 'failed';
  readonly attempt: number;
  readonly turns: number;
  /** Sandboxes of this attempt that were lost, and whose place another one took in the same state. */
  readonly restores?: number;
  readonly reward?: number;
  readonly passed?: boolean;
  /** What the grader said of it, in short. */
  readonly reason?: string;
  readonly finish?: FinishReason;
  readonly failure?: FailureClass;
  readonly message?: string;
}

/** Workflow ids of a batch's rollouts, task-major: `BATCH/TASK/K`, K from `firstSample` on. */
export function rolloutIds(batch: string, tasks: readonly string[], samples: number, firstSample = 0): string[] {
  return tasks.flatMap((task) => Array.from({ length: samples }, (_, k) => `${batch}/${task}/${firstSample + k}`));
}
