/**
 * A batch's circuit breaker: it goes on from how its run's last rollouts ended, and tells the parent once when it opens; a
 * batch without settings or parent tells nothing.
 */

import { defineSignal, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import { type BreakerState, CircuitBreaker, endOf, windowOf } from './circuit-breaker.ts';
import type { Trip } from '../../protocol/breaker.ts';
import type { BatchInput, TimedEnd } from '../../protocol/batch.ts';
import type { RolloutResult } from '../../protocol/rollout.ts';

/**
 * To the parent: too many rollouts failed alike; or a rollout of the named batch, which stands still by itself, is held.
 * The number says how many resumptions the sender had heard by then.
 */
export const circuitOpenedSignal = defineSignal<CircuitOpened>('circuitOpened');
export type CircuitOpened = [trip: Trip, held?: string, resumed?: number];

/** What a long batch carries over of it. */
export interface WatchProgress {
  readonly breaker: BreakerState;
  readonly ends: readonly TimedEnd[];
}

export class FailureWatch {
  readonly #breaker: CircuitBreaker;
  readonly #kept: number;
  /** Of this batch, the last ones. */
  #ends: readonly TimedEnd[];

  constructor(
    { breaker = { inARow: 0, share: 1 }, lately = [] }: Pick<BatchInput, 'breaker' | 'lately'>,
    progress?: WatchProgress,
  ) {
    this.#breaker = new CircuitBreaker(breaker, progress?.breaker ?? { last: lately });
    this.#kept = windowOf(breaker);
    this.#ends = progress?.ends ?? [];
  }

  get progress(): WatchProgress {
    return { breaker: this.#breaker.state, ends: this.#ends };
  }

  /** The last ends, from the first failure among them on; `undefined` where nobody wants to know. */
  get ends(): readonly TimedEnd[] | undefined {
    if (this.#kept === 0) return undefined;
    const first = this.#ends.findIndex(([, end]) => end !== null);
    return first < 0 ? [] : this.#ends.slice(first);
  }

  /** Never fails: a parent that has ended needs to hear nothing. */
  heard(result: RolloutResult): void {
    if (this.#kept > 0) this.#ends = [...this.#ends, [Date.now(), endOf(result.failure)] as const].slice(-this.#kept);
    const trip = this.#breaker.heard(result);
    const { parent } = workflowInfo();
    if (trip && parent)
      getExternalWorkflowHandle(parent.workflowId)
        .signal(circuitOpenedSignal, trip)
        .catch(() => undefined);
  }

  /** A rollout of `batch` is held, and the batch with it, which was `resumed` so often, where that is known. Returns when the parent has been told, or has ended. */
  async held(trip: Trip, batch: string, resumed: number | null): Promise<void> {
    const said: CircuitOpened = resumed === null ? [trip, batch] : [trip, batch, resumed];
    const { parent } = workflowInfo();
    if (parent)
      await getExternalWorkflowHandle(parent.workflowId)
        .signal(circuitOpenedSignal, ...said)
        .catch(() => undefined);
  }

  reset(): void {
    this.#breaker.reset();
  }
}
