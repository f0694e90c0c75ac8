/** The input and the results of an eval sweep: small JSON that refers to the store, like all of Temporal's payloads. */

import type { Endpoint } from './endpoint.ts';
import type { Budget } from './budget.ts';
import type { Judges } from './judge.ts';
import type { Trip } from './breaker.ts';
import type { DispatcherSettings } from './batch.ts';
import type { PolicyRef, RolloutPolicy, ScriptedPolicy } from './policy.ts';
import type { AgentSettings } from './rollout.ts';
import type { SamplingParameters } from './sampling.ts';
import type { ObjectRef } from './stages.ts';

/** Tasks of one environment, opened with options, or tasks by their keys. */
export type TaskSelection = TasksOfSplit | { readonly ids: readonly string[] };

/** Consecutive tasks of one environment. */
export interface TasksOfSplit {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  /** Absolute. Relative paths in `options` start there. Absent: `options` is empty. */
  readonly folder?: string;
  readonly split: string;
  readonly from: number;
  readonly count: number;
}

/** As a configuration says it: `split` and `count` may be left out, and follow from the data. */
export type AskedTasks =
  | (Omit<TasksOfSplit, 'split' | 'count'> & Partial<Pick<TasksOfSplit, 'split' | 'count'>>)
  | { readonly ids: readonly string[] };

/** A policy of a directory, and its name in the results. `config/policy-reference.ts` defines the forms of `policy`. */
export interface SweepReference {
  readonly name: string;
  readonly policy: string;
}

/** A policy on another party's server. */
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
  /** Share of intervals that contain the true value, such as 0.95. */
  readonly confidence: number;
}

/** The resolved configuration of an eval sweep: the argument of `evalSweep`, and `config.yaml` of its folder. */
export interface SweepConfig {
  readonly eval: string;
  /** Absolute path of the directory that contains the eval's folder. */
  readonly dir: string;
  readonly seed: number;
  /** Absolute paths of users' modules, which define what the eval names. Absent: none. */
  readonly modules?: readonly string[];
  readonly tasks: AskedTasks;
  readonly policies: readonly SweepPolicy[];
  readonly sampling: readonly SweepSampling[];
  /** The values of k for pass@k. A sampling setting leaves out each k above its number of samples. */
  readonly passAt: readonly number[];
  /** Models that environments and tools ask, by name. Absent: none. */
  readonly judges?: Judges;
  /** The eval pauses when it is spent. Absent: no limit. */
  readonly budget?: Budget;
  readonly agent: AgentSettings;
  readonly dispatcher: DispatcherSettings;
  /** The sweep fails if more than this share of a cell's rollouts was not graded. */
  readonly maxFailed: number;
  readonly bootstrap: BootstrapSettings;
}

/** A sweep's configuration, with the tasks that the data has. */
export interface SettledSweep extends SweepConfig {
  readonly tasks: TaskSelection;
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
  /** Number of the start, from 1. Rollouts of different rounds have different ids. */
  readonly round: number;
  readonly seed: number;
  readonly judges?: Judges;
  /** As it is now. Absent: there is none. */
  readonly budget?: Budget;
  /** Milliseconds in which it was not paused in earlier rounds. Absent: 0. */
  readonly workedMs?: number;
  readonly agent: AgentSettings;
  readonly dispatcher: DispatcherSettings;
  readonly maxFailed: number;
  /** The kind of engine that samples. Absent: any, or it was not asked yet. */
  readonly engine?: string;
  /** Says what the tasks' keys mean. Absent: they start with an environment's name. */
  readonly catalog?: ObjectRef;
  readonly cells: readonly SweepCell[];
}

/** The rollouts of one batch: samples `firstSample` to `firstSample + samples − 1` of each task. */
export interface SweepChunk {
  readonly tasks: readonly string[];
  readonly firstSample: number;
  readonly samples: number;
}

/** The next chunk of a cell, and the cell's progress. */
export interface PlannedChunk {
  /** `undefined` after the last chunk. */
  readonly chunk?: SweepChunk;
  /** All rollouts of the cell. */
  readonly total: number;
  /** Rollouts that earlier rounds have graded already. */
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
  /** A failed rollout counts as 0. */
  readonly meanReward: Estimate | null;
  /** By k. A failed rollout counts as not passed. */
  readonly passAt: Readonly<Record<string, Estimate>>;
}

/** A cell's numbers; `byFamily` is in `results.json` only. */
export interface CellHeadline extends Scores {
  readonly cell: string;
  readonly policy: string;
  readonly sampling: string;
  readonly graded: number;
  /** Rollouts that were not graded, by reason. */
  readonly failed: Readonly<Record<string, number>>;
  /** The scores over graded rollouts only. pass@k is over the tasks with at least k graded rollouts. */
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
  /** Time in which it was not paused, in all rounds: what `budget.hours` limits. */
  readonly workedSeconds: number;
  /** Finished cells. */
  readonly done: readonly CellHeadline[];
  /** The running cell. */
  readonly cell: { readonly name: string; readonly total: number; readonly known: number } | null;
  /** Workflow id of the running batch. */
  readonly batch: string | null;
  /** Why the sweep paused by itself: a rollout is held. Absent: it did not. */
  readonly tripped?: Trip;
}

/** A policy reference as resolved once, for all rounds of the sweep. */
export interface ResolvedReference extends SweepReference {
  readonly ref: PolicyRef | ScriptedPolicy;
  /** Digest of the policy's files, in hexadecimal. */
  readonly fingerprint: string;
  /** The run and step, if the policy is a checkpoint of a run. */
  readonly from?: { readonly run: string; readonly step: number };
}

/** A policy as the sweep uses it. An endpoint's model cannot be pinned: its server may change it. */
export type ResolvedPolicy = ResolvedReference | SweepEndpoint;
