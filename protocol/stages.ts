/** Inputs and results of a rollout's activities. Everything large is in the store, under the attempt's keys. */

import type { HintSettings } from './hints.ts';
import type { FinishReason } from './finish-reason.ts';
import type { Command } from './command.ts';
import type { ConversationSettings } from './conversation.ts';
import type { Place } from './frames.ts';
import type { Endpoint } from './endpoint.ts';
import type { Judges } from './judge.ts';
import type { SamplingParameters } from './sampling.ts';
import type { RolloutPolicy } from './policy.ts';
import type { ProgramCard } from './program.ts';

/** Names one attempt of one rollout: the prefix of every key that it records under. */
export interface Attempt {
  readonly run: string;
  readonly rollout: string;
  readonly attempt: number;
  /** `SOURCE-SPLIT-N`. */
  readonly task: string;
  /** Says what the key means: a `TaskCatalog` in the store. Absent: SOURCE is an environment's name. */
  readonly catalog?: ObjectRef;
}

/** Input of an activity in which a task's functions or tools run. */
export interface Asking {
  /** The models that they may ask. Absent: none. */
  readonly judges?: Judges;
}

export interface PrepareInput extends Attempt, Asking {
  /** Replaces the task's own agent. */
  readonly agent?: AgentChoice;
}

export interface CheckEndpointInput {
  /** The detected mode of the endpoint is recorded for this run. */
  readonly run: string;
  readonly endpoint: Endpoint;
  /** The endpoint's place in the given input: `policy.endpoint`. */
  readonly field: string;
}

export interface GenerateInput extends Attempt, Place {
  readonly turn: number;
  readonly policy: RolloutPolicy;
  readonly sampling: SamplingParameters;
  /** Absent: the policy's context is the only limit. */
  readonly maxContextTokens?: number;
  readonly limits: TurnLimits;
  /** Replaces the task's own agent. */
  readonly agent?: AgentChoice;
  /** Absent: all as the policy's template does it. */
  readonly conversation?: ConversationSettings;
  /** Absent: `DEFAULT_HINTS`. */
  readonly hints?: Partial<HintSettings>;
  /** Number of the rollout in its group. Present if a script is played. */
  readonly sample?: number;
  /** Seeds the sampling of this turn: a function of seed, step, task, sample and turn. */
  readonly noiseKey: string;
  /** Milliseconds until the rollout's time is over; the sampling stops then. Absent: no limit. */
  readonly withinMs?: number;
  /** A call of a program: its request is in the store. Absent: the agent at work takes the turn. */
  readonly call?: CallInput;
}

/** A program's call, as it is sampled. */
export interface CallInput {
  readonly call: string;
  readonly asked: string;
  /** Earlier turns with the same prompt that may be without a record. */
  readonly twins: readonly number[];
}

/** Limits of a rollout's turns that its agents know of. */
export interface TurnLimits {
  readonly maxTurns: number;
  /** Sub-agents below each other. */
  readonly maxDepth: number;
  /** Segments of one agent. */
  readonly maxSegments: number;
}

/** A type of agent, and its own options. */
export interface AgentChoice {
  readonly type: string;
  readonly options?: Readonly<Record<string, unknown>>;
}

export interface GenerateOutcome {
  readonly kind: Command['do'] | 'context' | 'response-cut' | 'refused';
  /** Tool calls to run in the sandbox. */
  readonly calls: number;
  /** The name of the sub-agent that is called. Present if `kind` is `delegate`. */
  readonly agent?: string;
  readonly contextTokens: number;
  readonly sampledTokens: number;
  /** The turn in one line, for the workflow's details. */
  readonly line: string;
  /** Milliseconds of sampling, without the wait for admission. Absent if it is unknown. */
  readonly ms?: number;
  /** The GPU worker that has the context in its cache. Absent if there is only one worker, or no worker has it. */
  readonly worker?: string;
  /** Milliseconds of earlier tries and of waits for a disk. They do not count as the rollout's time. Absent: 0. */
  readonly lostMs?: number;
}

/** Where a rollout's sandboxes are. */
export interface SandboxRef {
  /** The id of `main`. */
  readonly sandbox: string;
  /** Names of the task's other sandboxes. Absent: there are none. */
  readonly others?: readonly string[];
  readonly host: string;
  /** Lifetime of the sandbox if it is not used or renewed. */
  readonly ttlSeconds?: number;
}

/** What the workflow must know of a prepared task. */
export interface Card {
  /** `null` if the task has no sandbox: its turns run on any host, and nothing is collected. */
  readonly sandbox: SandboxRef | null;
  /** `agents`: graded in the agent's own sandboxes, on their host. `none`: graded without a sandbox. */
  readonly gradedIn: 'fresh' | 'agents' | 'none';
  /** Absent: the task sets none. */
  readonly limits?: TaskLimits;
  /** Present if the agent is a program. */
  readonly program?: ProgramCard;
}

/** The time limits that a task sets itself. */
export interface TaskLimits {
  /** Of one tool call. Absent: that of the configuration. */
  readonly toolSeconds?: number;
  /** Of one execution of the grading. Absent: the default. */
  readonly gradeSeconds?: number;
}

export interface RestoreInput extends PrepareInput {
  /** Number of sandboxes that this attempt has lost. */
  readonly restore: number;
  readonly toolTimeoutSeconds: number;
}

/** Without a sandbox, its fields are absent. */
export interface AgentRunInput extends Attempt, Asking, Partial<SandboxRef> {
  readonly turn: number;
  readonly toolTimeoutSeconds: number;
  /** Milliseconds until the rollout's time is over; everything of the turn stops then. Absent: no limit. */
  readonly withinMs?: number;
  /**
   * Whether this turn also collects the artifact, as the rollout's last turn. `always`; `if-finished`: unless the turn
   * is `unfinished`. Absent: never.
   */
  readonly collect?: 'always' | 'if-finished';
}

export interface AgentRunOutcome {
  readonly line: string;
  /** Milliseconds that its commands ran, as measured in the sandbox. Absent: 0. */
  readonly ms?: number;
  /** As in `GenerateOutcome`. */
  readonly lostMs?: number;
  /** The environment ended the rollout. */
  readonly done?: true;
  /** A call before `finish` was refused: the policy is informed, and the rollout continues. */
  readonly unfinished?: true;
  /** The collected artifact. The sandbox is released. */
  readonly collected?: CollectOutcome;
}

export interface CollectOutcome {
  readonly artifact: ObjectRef;
  readonly bytes: number;
}

export interface RewardInput extends Attempt, Asking {
  /** Absent: the task collects nothing. */
  readonly artifact?: ObjectRef;
  readonly finish: FinishReason;
  readonly turns: number;
}

/** The grader's verdict. Only `graded` has a reward. */
export type Verdict =
  | {
      readonly code: 'graded';
      readonly reward: number;
      readonly passed: boolean;
      readonly reason: string;
      /** What the reward is made of, by name: format, progress, outcome. */
      readonly parts?: Readonly<Record<string, number>>;
      readonly metrics?: Readonly<Record<string, number>>;
    }
  | { readonly code: 'grader-failed'; readonly reason: string };

/** A reference to immutable bytes in the store: `sha256:<hex>`. */
export type ObjectRef = `sha256:${string}`;
