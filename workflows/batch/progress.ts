/** What a long batch carries over continue-as-new: numbers and places, a few bytes for each rollout that is left. */

import type { WatchProgress } from '../failures/failure-watch.ts';
import type { PauseProgress } from './batch-pause.ts';
import type { SamplingProgress } from './dynamic-sampling.ts';
import type { LedgerProgress } from './ledger.ts';
import type { RosterProgress } from './roster.ts';

export interface BatchProgress extends RosterProgress, PauseProgress {
  /** Milliseconds since the epoch. */
  readonly begunAt: number;
  /** Rollouts that have begun. */
  readonly started: number;
  readonly sampling: SamplingProgress;
  readonly ledger: LedgerProgress;
  readonly watch: WatchProgress;
  /** Until the deadline; absent: there is none. */
  readonly leftMs?: number;
  /** Those that have not heard of the last pause, or of its end; absent: none. */
  readonly untold?: readonly number[];
  /** Those that are to be asked at once whether they live; absent: none. */
  readonly unasked?: readonly number[];
}
