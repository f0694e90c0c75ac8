/** What the activities of a rollout are asked for and what they answer: everything large is on record, under the attempt's keys. */

import type { FinishReason } from './finish-reason.ts';
import type { Endpoint } from './endpoint.ts';
import type { SamplingParameters } from './sampling.ts';
import type { RolloutPolicy } from './policy.ts';

/** Names one attempt of one rollout: the prefix of every key that it records under. */
export interface Attempt {
  readonly run: string;
  readonly rollout: string;
  readonly attempt: number;
  readonly task: string;
}

export interface CheckEndpointInput {
  /** What the endpoint is found to offer is on record for this run. */
  readonly run: string;
  readonly endpoint: Endpoint;
  /** Where the endpoint stands in what was given: `policy.endpoint`. */
  readonly field: string;
}

export interface GenerateInput extends Attempt {
  readonly turn: number;
  readonly policy: RolloutPolicy;
  readonly sampling: SamplingParameters;
  readonly maxContextTokens: number;
  /** The noise of this turn: a function of seed, step, task, sample and turn. */
  readonly noiseKey: string;
  /** Milliseconds after which a try of it ends: the rollout's time is over. Absent: time enough. */
  readonly withinMs?: number;
}

export interface GenerateOutcome {
  readonly kind: 'calls' | 'hint' | 'finish' | 'context-full' | 'response-cut' | 'refused';
  /** Tool calls to run in the sandbox. */
  readonly calls: number;
  readonly contextTokens: number;
  readonly sampledTokens: number;
  /** The turn in a line, for the workflow's details. */
  readonly line: string;
  /** That it was sampled for, without its wait for room; absent where nobody tells. */
  readonly ms?: number;
  /** Who has the context in its cache; absent where there is one worker, or nobody has. */
  readonly worker?: string;
  /** Milliseconds that earlier tries, and waits for a disk, took: none of the rollout's own time. Absent: none. */
  readonly lostMs?: number;
}

export interface SandboxRef {
  readonly sandbox: string;
  readonly host: string;
  /** For so long it lives without being used or renewed. */
  readonly ttlSeconds?: number;
}

export interface RestoreInput extends Attempt {
  /** How many sandboxes of this attempt were lost. */
  readonly restore: number;
  readonly toolTimeoutSeconds: number;
}

export interface AgentRunInput extends Attempt, SandboxRef {
  readonly turn: number;
  readonly toolTimeoutSeconds: number;
  /** Milliseconds after which nothing of the turn runs any more: the rollout's time is over. Absent: time enough. */
  readonly withinMs?: number;
  /**
   * Whether what is to be graded is taken out with the turn that is the last: `always`, or `if-finished`, unless that turn
   * turns out `unfinished`. Absent: never.
   */
  readonly collect?: 'always' | 'if-finished';
}

export interface AgentRunOutcome {
  readonly line: string;
  /** That its commands ran, as the sandbox counts; absent: no time. */
  readonly ms?: number;
  /** As that of a turn that is sampled. */
  readonly lostMs?: number;
  /** A call before `finish` was refused: the policy is told, and goes on. */
  readonly unfinished?: true;
  /** What was taken out; the sandbox is released. */
  readonly collected?: CollectOutcome;
}

export interface CollectOutcome {
  readonly artifact: ObjectRef;
  readonly bytes: number;
}

export interface RewardInput extends Attempt {
  readonly artifact: ObjectRef;
  readonly finish: FinishReason;
  readonly turns: number;
}

/** The grader's word, as data: only `graded` carries a reward. */
export type Verdict =
  | { readonly code: 'graded'; readonly reward: number; readonly passed: boolean; readonly reason: string }
  | { readonly code: 'grader-failed'; readonly reason: string };

/** A reference to immutable bytes in the store: `sha256:<hex>`. */
export type ObjectRef = `sha256:${string}`;
