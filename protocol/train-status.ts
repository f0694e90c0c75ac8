/** The answer to a run's `status` query, and the watchdog's signal to a run. */

import type { Trip } from './breaker.ts';
import type { StepRecord } from './step-record.ts';

/** Where a pause takes effect: before each rollout's next turn, or before the run's next step or evaluation. */
export type PausePoint = 'turn' | 'step';

/** The answer to the `status` query of `train`. */
export interface TrainStatus {
  readonly run: string;
  /** `paused` when the pause has taken effect: at once for `turn`; for `step`, when the running step has ended. */
  readonly phase: 'starting' | 'evaluating' | 'rollouts' | 'training' | 'paused' | 'done';
  readonly step: number;
  readonly steps: number;
  readonly policyVersion: number;
  /** Time in which the run was not paused: what `budget.hours` limits. */
  readonly workedSeconds: number;
  /** The oldest running batch, or else the last one. */
  readonly batch: { readonly name: string; readonly total: number } | null;
  /** If rollouts and updates overlap: the number of running batches, and of ended ones that wait for their step. */
  readonly overlap?: { readonly running: number; readonly waiting: number };
  /** A requested pause that was not resumed. Absent: none. */
  readonly pauseAt?: PausePoint;
  /** Why the circuit breaker paused the run. Absent: it did not. */
  readonly tripped?: Trip;
  /** The last steps, oldest first; at most 20. */
  readonly recent: readonly StepRecord[];
}

/** The watchdog's signal to a run or an eval: what is stuck, for the workflow's details. Its argument is `Stalled`. */
export const STALLED = 'stalled';

/** A line for each thing that is stuck. Empty: nothing is stuck any more. */
export type Stalled = readonly string[];
