/** Judges: models that environments, graders and tools ask. What they may use, and what each call was. */

import type { Budget } from './budget.ts';
import type { Endpoint } from './endpoint.ts';
import type { GivenEndpoint } from './policy.ts';
import type { ObjectRef } from './stages.ts';

/** How a judge samples its answers. */
export interface JudgeSampling {
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
}

export const DEFAULT_JUDGE_SAMPLING: JudgeSampling = { temperature: 0, topP: 1, maxTokens: 1024 };

export interface Judge {
  /** Asked by chat. */
  readonly endpoint: Endpoint;
  readonly sampling: JudgeSampling;
  /** As the run or the eval started. The live one is `budgetsOf` the run. Absent: no limit. */
  readonly budget?: Budget;
}

/** By name. */
export type Judges = Readonly<Record<string, Judge>>;

/** A judge as the user gives it. Absent fields take their defaults. */
export interface GivenJudge {
  readonly endpoint: GivenEndpoint;
  readonly sampling?: Partial<JudgeSampling>;
  readonly budget?: Budget;
}

/** Letters, digits, dash and underscore: the name is part of metrics and of settings' names. */
export const JUDGE_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,49}$/;

/** What was said in one call. */
export interface AskExchange {
  readonly question: ReadonlyArray<{ readonly role: string; readonly content: string }>;
  readonly answer: string;
}

/** One answered question. A retry reads it and does not ask again. */
export interface AskRecord {
  readonly judge: string;
  readonly model: string;
  /** An `AskExchange`, as JSON. */
  readonly exchange: ObjectRef;
  readonly promptTokens: number;
  readonly sampledTokens: number;
  /** Present if the server did not count: a token for four characters. */
  readonly estimated?: true;
  /** Absent: the endpoint has no price. */
  readonly usd?: number;
  /** From the request to the answer. */
  readonly seconds: number;
  /** ISO 8601, UTC. */
  readonly at: string;
}
