/** What the engine is asked when a run or an eval opens, and what it answers. */

export interface OpenEngineInput {
  /** The run, or `eval/ID`. */
  readonly run: string;
  /** The policies of the embedded engine, each with the setting that names it. */
  readonly policies: ReadonlyArray<{ readonly field: string; readonly uri: string }>;
  /** `policy.maxContextTokens`. Absent: what each policy's configuration and the engine's memory allow. */
  readonly policyContextTokens?: number;
  /** `agent.maxContextTokens`. Absent: each policy's context. */
  readonly maxContextTokens?: number;
}

export interface OpenedEngine {
  /** The longest context of a rollout. Absent: each of several policies has its own. */
  readonly contextTokens?: number;
}
