/**
 * The circuit breaker of a run: one window over its rollouts, whatever batch, step or history they ended in. It hears of
 * a batch's when that has ended, in the order in which they did; a batch's own watch tells sooner. What ended before
 * somebody looked is not heard: it may have been mended. Pure.
 */

import type { FailureClass } from '../../protocol/finish-reason.ts';
import type { BatchResult } from '../../protocol/batch.ts';
import { type BreakerState, CircuitBreaker, windowOf } from './circuit-breaker.ts';
import type { BreakerSettings, End, Trip } from '../../protocol/breaker.ts';

/** How a batch's rollouts ended, as it tells its run. */
export type BatchEnds = Pick<BatchResult, 'rollouts' | 'failures' | 'said' | 'ends'>;

export interface RunFailuresState {
  readonly breaker: BreakerState;
  /** Milliseconds since the epoch at which somebody last looked. */
  readonly lookedAt: number;
}

export class RunFailures {
  readonly #settings: BreakerSettings;
  readonly #breaker: CircuitBreaker;
  #lookedAt: number;
  /** Units of earlier code that were under way when somebody looked. */
  #unheard = new Set<number>();

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

  /** Answers with a trip when this batch opens it. `unit`: where it has a number. */
  heard({ rollouts, failures, said = {}, ends }: BatchEnds, unit = 0): Trip | undefined {
    if (!ends) return this.#heardWithoutOrder({ rollouts, failures, said }, unit);
    this.#heardGood(Math.min(rollouts - ends.length, windowOf(this.#settings)));
    const since = ends.filter(([at]) => at >= this.#lookedAt).map(([, end]) => end);
    return this.#heardEach(since, said);
  }

  /** Somebody has looked, while the units `running` ran: it counts from nothing. */
  reset(now: number, running: readonly number[]): void {
    this.#breaker.reset();
    this.#lookedAt = now;
    this.#unheard = new Set(running);
  }

  /** Earlier code tells no order: successes count as the earlier ones, and a unit that can see a row has told it by itself. */
  #heardWithoutOrder({ rollouts, failures, said }: BatchEnds, unit: number): Trip | undefined {
    if (unit === 0 || this.#unheard.delete(unit)) return undefined;
    const failed = (Object.entries(failures) as Array<[FailureClass, number]>).flatMap(([failure, count]) =>
      Array<FailureClass>(count).fill(failure),
    );
    this.#heardGood(rollouts - failed.length);
    return rollouts >= this.#settings.inARow ? undefined : this.#heardEach(failed, said);
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
