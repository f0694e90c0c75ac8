/** What a long batch carries over continue-as-new: numbers and places, a few bytes for each rollout that is left. */

import type { Trip } from '../../protocol/breaker.ts';
import type { WatchProgress } from '../failures/failure-watch.ts';
import type { SamplingProgress } from './dynamic-sampling.ts';
import type { LedgerProgress } from './ledger.ts';
import type { RosterProgress } from './roster.ts';

export interface BatchProgress extends RosterProgress {
  /** Milliseconds since the epoch. */
  readonly begunAt: number;
  /** Rollouts that have begun. */
  readonly started: number;
  readonly paused: boolean;
  /** Why it paused by itself; absent: it did not. */
  readonly held?: Trip;
  /** How often it was resumed; absent: nobody counted. */
  readonly resumed?: number;
  /** Milliseconds of pauses since it began; absent: none. */
  readonly stoodMs?: number;
  readonly sampling: SamplingProgress;
  readonly ledger: LedgerProgress;
  /** Absent: nothing has ended. */
  readonly watch?: WatchProgress;
  /** Until the deadline; absent: there is none. */
  readonly leftMs?: number;
  /** Those that have not heard of the last pause, or of its end; absent: none. */
  readonly untold?: readonly number[];
  /** Those that are to be asked at once whether they live; absent: none. */
  readonly unasked?: readonly number[];
}
