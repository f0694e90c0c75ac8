/** What a long batch carries over continue-as-new: numbers and places, a few bytes for each rollout that is left. */

import type { DispatcherProgress } from './dispatcher.ts';
import type { SamplingProgress } from './dynamic-sampling.ts';
import type { LedgerProgress } from './ledger.ts';
import type { GivenUpReason } from './stragglers.ts';

export interface BatchProgress {
  /** Milliseconds since the epoch. */
  readonly begunAt: number;
  /** Rollouts that have begun. */
  readonly started: number;
  readonly paused: boolean;
  readonly sampling: SamplingProgress;
  readonly places: DispatcherProgress;
  readonly ledger: LedgerProgress;
  /** Let in, not begun yet. */
  readonly admitted: readonly number[];
  /** No longer waited for, and not ended yet. */
  readonly givenUp: ReadonlyArray<readonly [number, GivenUpReason]>;
  /** Until the deadline; absent: there is none. */
  readonly leftMs?: number;
}
