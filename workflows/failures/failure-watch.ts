/**
 * A batch's circuit breaker: it starts from the ends of its run's last rollouts, and notifies the parent once when it
 * opens. A batch without breaker settings or parent sends nothing.
 */

import { defineSignal, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import { type BreakerState, CircuitBreaker, endOf, windowOf } from './circuit-breaker.ts';
import type { Trip } from '../../protocol/breaker.ts';
import type { BatchInput, TimedEnd } from '../../protocol/batch.ts';
import type { RolloutResult } from '../../protocol/rollout.ts';

/**
 * A batch that paused by itself, since one of its rollouts is held; it had received `resumed` resume signals by then.
 */
export interface HeldBatch {
  readonly name: string;
  readonly resumed: number;
}

/** To the parent: too many rollouts failed alike; or a rollout of `held` is held. */
export const circuitOpenedSignal = defineSignal<CircuitOpened>('circuitOpened');
export type CircuitOpened = [trip: Trip, held?: HeldBatch];

/** Carried over to a long batch's next history. */
export interface WatchProgress {
  readonly breaker: BreakerState;
  readonly ends: readonly TimedEnd[];
}

export class FailureWatch {
  readonly #breaker: CircuitBreaker;
  readonly #kept: number;
  /** The last ends of this batch's rollouts. */
  #ends: readonly TimedEnd[];

  constructor(
    { breaker = { maxConsecutiveFailures: 0, share: 1 }, lately = [] }: Pick<BatchInput, 'breaker' | 'lately'>,
    progress?: WatchProgress,
  ) {
    this.#breaker = new CircuitBreaker(breaker, progress?.breaker ?? { last: lately });
    this.#kept = windowOf(breaker);
    this.#ends = progress?.ends ?? [];
  }

  get progress(): WatchProgress {
    return { breaker: this.#breaker.state, ends: this.#ends };
  }

  /** The last ends, starting with the first failure among them; `undefined` if the breaker is off. */
  get ends(): readonly TimedEnd[] | undefined {
    if (this.#kept === 0) return undefined;
    const first = this.#ends.findIndex(([, end]) => end !== null);
    return first < 0 ? [] : this.#ends.slice(first);
  }

  /** Never fails: a parent that has ended needs no signal. */
  add(result: RolloutResult): void {
    if (this.#kept > 0) this.#ends = [...this.#ends, [Date.now(), endOf(result.failure)] as const].slice(-this.#kept);
    const trip = this.#breaker.add(result);
    const { parent } = workflowInfo();
    if (trip && parent)
      getExternalWorkflowHandle(parent.workflowId)
        .signal(circuitOpenedSignal, trip)
        .catch(() => undefined);
  }

  /** A rollout of `batch` is held, and the batch with it. Returns when the parent was notified, or has ended. */
  async held(trip: Trip, batch: HeldBatch): Promise<void> {
    const { parent } = workflowInfo();
    if (parent)
      await getExternalWorkflowHandle(parent.workflowId)
        .signal(circuitOpenedSignal, trip, batch)
        .catch(() => undefined);
  }

  reset(): void {
    this.#breaker.reset();
  }
}
