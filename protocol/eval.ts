/** What an eval sweep is asked for and what it answers: small, JSON, by reference, as everything that crosses Temporal. */

import type { Endpoint } from './endpoint.ts';
import type { Trip } from './breaker.ts';
import type { DispatcherSettings } from './batch.ts';
import type { RolloutPolicy, PolicyRef } from './policy.ts';
import type { AgentSettings } from './rollout.ts';
import type { SamplingParameters } from './sampling.ts';

/** A set of tasks by its environment's name, or tasks by their ids. */
export type TaskSelection =
  | { readonly name: string; readonly split: 'train' | 'held-out'; readonly from: number; readonly count: number }
  | { readonly ids: readonly string[] };

/** A policy of a directory under the name that results are told by; `policy` as `policy-reference.ts` reads it. */
export interface SweepReference {
  readonly name: string;
  readonly policy: string;
}

/** A policy behind somebody else's server. */
export interface SweepEndpoint {
  readonly name: string;
  readonly endpoint: Endpoint;
}

export type SweepPolicy = SweepReference | SweepEndpoint;

export interface SweepSampling extends SamplingParameters {
  readonly name: string;
  /** Rollouts of each task. */
  readonly samples: number;
}

export interface BootstrapSettings {
  readonly resamples: number;
  /** Share of intervals that hold the true value: 0.95. */
  readonly confidence: number;
}

/** The resolved configuration of an eval sweep: the argument of `evalSweep`, and `config.yaml` of its folder. */
export interface SweepConfig {
  readonly eval: string;
  /** Absolute directory that the eval's folder is made in. */
  readonly dir: string;
  readonly seed: number;
  readonly tasks: TaskSelection;
  readonly policies: readonly SweepPolicy[];
  readonly sampling: readonly SweepSampling[];
  /** The k of pass@k; a sampling setting with fewer samples leaves out those beyond them. */
  readonly passAt: readonly number[];
  readonly agent: AgentSettings;
  readonly dispatcher: DispatcherSettings;
  /** The sweep fails where more than this share of a cell's rollouts was not graded. */
  readonly maxFailed: number;
  readonly bootstrap: BootstrapSettings;
}

/** One policy under one sampling setting. */
export interface SweepCell {
  /** `POLICY/SAMPLING`: part of its rollouts' ids. */
  readonly name: string;
  readonly policyName: string;
  readonly samplingName: string;
  readonly policy: RolloutPolicy;
  readonly sampling: SamplingParameters;
  readonly samples: number;
}

/** A sweep whose policies are resolved; its tasks are in the store. */
export interface OpenedSweep {
  readonly eval: string;
  readonly evalDir: string;
  /** How often it has been started, from 1: rollouts of another round have other ids. */
  readonly round: number;
  readonly seed: number;
  readonly agent: AgentSettings;
  readonly dispatcher: DispatcherSettings;
  readonly maxFailed: number;
  readonly cells: readonly SweepCell[];
}

/** Rollouts of one batch: samples `firstSample` to `firstSample + samples − 1` of each task. */
export interface SweepChunk {
  readonly tasks: readonly string[];
  readonly firstSample: number;
  readonly samples: number;
}

/** What a cell still has to roll out, and one part of it. */
export interface PlannedChunk {
  /** `undefined` behind the last one. */
  readonly chunk?: SweepChunk;
  /** Rollouts of the cell in all. */
  readonly total: number;
  /** Of them, those that earlier rounds have graded. */
  readonly known: number;
}

/** A mean over tasks, with its bootstrap interval. */
export interface Estimate {
  readonly mean: number;
  readonly low: number;
  readonly high: number;
}

export interface Scores {
  readonly tasks: number;
  readonly rollouts: number;
  /** What failed counts as 0. */
  readonly meanReward: Estimate | null;
  /** By k. What failed has not passed. */
  readonly passAt: Readonly<Record<string, Estimate>>;
}

/** A cell in numbers; `byFamily` is in `results.json`. */
export interface CellHeadline extends Scores {
  readonly cell: string;
  readonly policy: string;
  readonly sampling: string;
  readonly graded: number;
  /** Rollouts that were not graded, by reason. */
  readonly failed: Readonly<Record<string, number>>;
  /** Over the graded rollouts alone, of tasks that have as many as k. */
  readonly ofGraded: Scores;
}

export interface CellResult extends CellHeadline {
  readonly byFamily: Readonly<Record<string, Scores>>;
}

/** What the workflow `evalSweep` returns; the rest is in `results.json`. */
export interface SweepResult {
  readonly eval: string;
  readonly evalDir: string;
  readonly rounds: number;
  readonly rollouts: number;
  readonly graded: number;
  readonly cells: readonly CellHeadline[];
}

/** The answer to the `status` query of `evalSweep`. */
export interface SweepStatus {
  readonly eval: string;
  readonly phase: 'starting' | 'rollouts' | 'paused' | 'done';
  readonly round: number;
  readonly cells: number;
  /** Cells that are done. */
  readonly done: readonly CellHeadline[];
  /** The cell under way. */
  readonly cell: { readonly name: string; readonly total: number; readonly known: number } | null;
  /** Workflow id of the batch under way. */
  readonly batch: string | null;
  /** Why it paused by itself: a rollout is held. Absent: it did not. */
  readonly tripped?: Trip;
}

/** What a reference stands for in all rounds of the sweep. */
export interface ResolvedReference extends SweepReference {
  readonly ref: PolicyRef;
  /** Of the files that make the policy, as hexadecimal digits. */
  readonly fingerprint: string;
  /** The run and step that it is a checkpoint of. */
  readonly from?: { readonly run: string; readonly step: number };
}

/** A policy as the sweep uses it; what a server serves under a model's name cannot be pinned. */
export type ResolvedPolicy = ResolvedReference | SweepEndpoint;
