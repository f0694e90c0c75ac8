/** What a long batch carries over continue-as-new: numbers and places, a few bytes for each remaining rollout. */

import type { WatchProgress } from '../failures/failure-watch.ts';
import type { PauseProgress } from './batch-pause.ts';
import type { SamplingProgress } from './dynamic-sampling.ts';
import type { LedgerProgress } from './ledger.ts';
import type { RosterProgress } from './roster.ts';

export interface BatchProgress extends RosterProgress, PauseProgress {
  /** Milliseconds since the epoch. */
  readonly begunAt: number;
  /** Number of rollouts that have started. */
  readonly started: number;
  readonly sampling: SamplingProgress;
  readonly ledger: LedgerProgress;
  readonly watch: WatchProgress;
  /** Milliseconds until the deadline; absent: there is none. */
  readonly leftMs?: number;
  /** Rollouts that have not received the last pause or resume; absent: none. */
  readonly untold?: readonly number[];
  /** Rollouts to check at once, to see whether they still run; absent: none. */
  readonly unasked?: readonly number[];
}
