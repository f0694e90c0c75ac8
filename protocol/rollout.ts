/** The input and the result of a rollout. Neither contains a transcript. */

import type { ConversationSettings } from './conversation.ts';
import { OUTAGE_SECONDS } from './failure-policy.ts';
import type { FailureClass, FinishReason } from './finish-reason.ts';
import type { HintSettings } from './hints.ts';
import type { SamplingParameters } from './sampling.ts';
import type { GivenEndpointPolicy, PolicyRef, ScriptedPolicy } from './policy.ts';
import type { GivenJudge } from './judge.ts';
import type { ObjectRef } from './stages.ts';

export interface AgentSettings extends ConversationSettings {
  /** Absent: `DEFAULT_HINTS`, also for each rule that is left out. */
  readonly hints?: Partial<HintSettings>;
  /** The type of agent, in place of the tasks' own. */
  readonly type?: string;
  /** Its own options. */
  readonly options?: Readonly<Record<string, unknown>>;
  readonly maxTurns: number;
  /** Limit for prompt, observations and sampled tokens together. Absent: the policy's context. */
  readonly maxContextTokens?: number;
  /** Sub-agents that may work below each other. */
  readonly maxDepth?: number;
  /** Segments of one agent: each summary of its history opens the next one. */
  readonly maxSegments?: number;
  /** Time limit of one tool call. */
  readonly toolTimeoutSeconds: number;
  /** Tokens that a rollout may sample in all its turns. Then it is graded. Absent: no limit. */
  readonly maxSampledTokens?: number;
  /** Time limit of a rollout's turns, from its first sandbox on. Pauses and gates do not count. Absent: a week. */
  readonly deadlineSeconds?: number;
  /**
   * What happens at the deadline. `grade`: the rollout is graded as it is if the policy itself (sampling and tools)
   * used at least half of the time, and masked otherwise. `mask`: it is always masked. Absent: `grade`, so that a
   * policy cannot avoid a low reward by wasting time.
   */
  readonly atDeadline?: 'grade' | 'mask';
}

/** Settings that have no default of their own. */
type OpenSettings = 'type' | 'options' | 'hints' | 'maxContextTokens' | 'maxSampledTokens' | keyof ConversationSettings;

/** With every limit filled in; a task's own agent stays if there is no `type`. */
export type ResolvedAgent = Required<Omit<AgentSettings, OpenSettings>> & Pick<AgentSettings, OpenSettings>;

export const DEFAULT_AGENT: ResolvedAgent = {
  maxTurns: 30,
  maxDepth: 2,
  maxSegments: 10,
  toolTimeoutSeconds: 120,
  deadlineSeconds: OUTAGE_SECONDS,
  atDeadline: 'grade',
};

export const DEFAULT_SAMPLING: SamplingParameters = { temperature: 1, topP: 1, topK: 0, maxTokens: 4096 };

/** One rollout. Only `task` and `policy` are required, so that any Temporal client can start one. */
export interface RolloutInput {
  readonly task: string;
  /** Says what `task` means: a `TaskCatalog` in the store. Absent: it starts with an environment's name. */
  readonly catalog?: ObjectRef;
  /** An endpoint needs only `baseUrl` and `model`. */
  readonly policy: PolicyRef | GivenEndpointPolicy | ScriptedPolicy;
  readonly agent?: Partial<AgentSettings>;
  readonly sampling?: Partial<SamplingParameters>;
  /** What the task's functions and tools may ask, by name. */
  readonly judges?: Readonly<Record<string, GivenJudge>>;
  /** The kind of engine that samples it. Absent: any. */
  readonly engine?: string;
  /** The run that it belongs to. Absent: a run with the rollout's own id. */
  readonly run?: string;
  readonly step?: number;
  readonly sample?: number;
  readonly seed?: number;
  /** Stages that start only when the parent sends `proceed`. If any, the parent is notified of each stage's end. */
  readonly gates?: readonly GatedStage[];
  /** True if the parent receives the end by the signal `rolloutEnded` too: it may be in another history by then. */
  readonly reportsEnd?: boolean;
  /**
   * True if the rollout is held at a failure with the recovery `hold`, until it is resumed. False: it is masked.
   * Absent: true.
   */
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
  /** Lost sandboxes of this attempt that were replaced by one in the same state. */
  readonly restores?: number;
  readonly reward?: number;
  readonly passed?: boolean;
  /** The grader's reason, in short. */
  readonly reason?: string;
  readonly finish?: FinishReason;
  readonly failure?: FailureClass;
  readonly message?: string;
}

/** Workflow ids of a batch's rollouts, task-major: `BATCH/TASK/K`, K from `firstSample` on. */
export function rolloutIds(batch: string, tasks: readonly string[], samples: number, firstSample = 0): string[] {
  return tasks.flatMap((task) => Array.from({ length: samples }, (_, k) => `${batch}/${task}/${firstSample + k}`));
}
