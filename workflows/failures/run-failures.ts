/**
 * The circuit breaker of a run: one window over its rollouts, whatever batch, step or history they ended in. It
 * receives the ends of a batch's rollouts, in order, when the batch has ended; the batch's own watch reports sooner.
 * Ends from before an operator's last resume do not count: their cause may be fixed. Pure.
 */

import type { BatchResult } from '../../protocol/batch.ts';
import { type BreakerState, CircuitBreaker, windowOf } from './circuit-breaker.ts';
import type { BreakerSettings, End, Trip } from '../../protocol/breaker.ts';

/** How a batch's rollouts ended, as it reports to its run. */
export type BatchEnds = Pick<BatchResult, 'rollouts' | 'said' | 'ends'>;

export interface RunFailuresState {
  readonly breaker: BreakerState;
  /** When an operator last resumed the run, in milliseconds since the epoch. */
  readonly lookedAt: number;
}

export class RunFailures {
  readonly #settings: BreakerSettings;
  readonly #breaker: CircuitBreaker;
  #lookedAt: number;

  constructor(settings: BreakerSettings, { breaker, lookedAt = 0 }: Partial<RunFailuresState> = {}) {
    this.#settings = settings;
    this.#breaker = new CircuitBreaker(settings, breaker);
    this.#lookedAt = lookedAt;
  }

  get state(): RunFailuresState {
    return { breaker: this.#breaker.state, lookedAt: this.#lookedAt };
  }

  /** The last ends, for the batch that starts next. */
  get lately(): readonly End[] {
    return this.#breaker.state.last;
  }

  /** Returns a trip if this batch opens the breaker. */
  add({ rollouts, said = {}, ends }: BatchEnds): Trip | undefined {
    if (!ends) return undefined;
    this.#addGood(Math.min(rollouts - ends.length, windowOf(this.#settings)));
    const since = ends.filter(([at]) => at >= this.#lookedAt).map(([, end]) => end);
    return this.#addEach(since, said);
  }

  /** Counts from zero, since an operator has resumed the run. */
  reset(now: number): void {
    this.#breaker.reset();
    this.#lookedAt = now;
  }

  #addGood(count: number): void {
    for (let i = 0; i < count; i += 1) this.#breaker.add({});
  }

  #addEach(ends: readonly End[], said: BatchEnds['said'] = {}): Trip | undefined {
    for (const failure of ends) {
      const trip = this.#breaker.add(failure === null ? {} : { failure, message: said[failure] ?? '' });
      if (trip) return trip;
    }
    return undefined;
  }
}
