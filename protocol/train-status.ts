/** What a run answers about itself while it runs, and what the watchdog reports to it. */

import type { Trip } from './breaker.ts';
import type { StepRecord } from './step-record.ts';

/** Where a paused run stops: its rollouts before their next turn, or the run before its next step or evaluation. */
export type PausePoint = 'turn' | 'step';

/** The answer to the `status` query of `train`. */
export interface TrainStatus {
  readonly run: string;
  /** `paused` once the run stands still: at a turn at once, at a step when what is under way has ended. */
  readonly phase: 'starting' | 'evaluating' | 'rollouts' | 'training' | 'paused' | 'done';
  readonly step: number;
  readonly steps: number;
  readonly policyVersion: number;
  /** The oldest under way, or the last one. */
  readonly batch: { readonly name: string; readonly total: number } | null;
  /** Where rollouts and updates overlap: batches that run, and those that have ended and wait for their step. */
  readonly overlap?: { readonly running: number; readonly waiting: number };
  /** A pause that was asked for and not undone; absent: none. */
  readonly pauseAt?: PausePoint;
  /** Why the circuit breaker paused the run; absent: it did not. */
  readonly tripped?: Trip;
  /** The last steps, oldest first; at most 20. */
  readonly recent: readonly StepRecord[];
}

/** The watchdog's signal to a run or an eval: what is stuck in it, for a person who looks at its details. Its one argument is `Stalled`. */
export const STALLED = 'stalled';

/** A line for each thing that is stuck; none: nothing is any more. */
export type Stalled = readonly string[];
