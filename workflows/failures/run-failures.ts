/**
 * The circuit breaker of a run: one window over its rollouts, whatever batch, step or history they ended in. It hears of
 * a batch's when that has ended, in the order in which they did; a batch's own watch tells sooner. What ended before
 * somebody looked is not heard: it may have been mended. Pure.
 */

import type { BatchResult } from '../../protocol/batch.ts';
import { type BreakerState, CircuitBreaker, windowOf } from './circuit-breaker.ts';
import type { BreakerSettings, End, Trip } from '../../protocol/breaker.ts';

/** How a batch's rollouts ended, as it tells its run. */
export type BatchEnds = Pick<BatchResult, 'rollouts' | 'said' | 'ends'>;

export interface RunFailuresState {
  readonly breaker: BreakerState;
  /** Milliseconds since the epoch at which somebody last looked. */
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

  /** For the batch that begins next. */
  get lately(): readonly End[] {
    return this.#breaker.state.last;
  }

  /** Answers with a trip when this batch opens it. */
  heard({ rollouts, said = {}, ends }: BatchEnds): Trip | undefined {
    if (!ends) return undefined;
    this.#heardGood(Math.min(rollouts - ends.length, windowOf(this.#settings)));
    const since = ends.filter(([at]) => at >= this.#lookedAt).map(([, end]) => end);
    return this.#heardEach(since, said);
  }

  /** Somebody has looked: it counts from nothing. */
  reset(now: number): void {
    this.#breaker.reset();
    this.#lookedAt = now;
  }

  #heardGood(count: number): void {
    for (let i = 0; i < count; i += 1) this.#breaker.heard({});
  }

  #heardEach(ends: readonly End[], said: BatchEnds['said'] = {}): Trip | undefined {
    for (const failure of ends) {
      const trip = this.#breaker.heard(failure === null ? {} : { failure, message: said[failure] ?? '' });
      if (trip) return trip;
    }
    return undefined;
  }
}
