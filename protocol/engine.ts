/** What the engine is asked when a run or an eval opens, and what it answers. */

/** The parts of a run whose products depend on the engine that makes them. */
export type EnginePart = 'sampling' | 'training';

/** What an engine's products depend on, beside their inputs: engines with the same id make the same bits. */
export interface EngineKind {
  /** Part of the names of queues. */
  readonly id: string;
  readonly depends: Readonly<Record<string, string>>;
}

export type EngineKinds = Readonly<Record<EnginePart, EngineKind>>;

export interface OpenEngineInput {
  /** The run, or `eval/ID`. */
  readonly run: string;
  /** The parts of the run that the asked engine stands for. */
  readonly parts: readonly EnginePart[];
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
  /** For each part, the id of the kind of engine that makes it. Absent: engines of any kind. */
  readonly kinds: Readonly<Partial<Record<EnginePart, string>>>;
}

/** What a run, or an eval, has agreed on with the engine: the first worker that was asked. */
export interface EngineRecord {
  /** The run, or `eval/ID`. */
  readonly run: string;
  readonly contextTokens?: number;
  readonly kinds: Readonly<Partial<Record<EnginePart, EngineKind>>>;
  /** True if engines of any kind make its products: `LONGHAUL_MIXED_ENGINES`. */
  readonly mixed: boolean;
}
