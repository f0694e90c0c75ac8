/**
 * The circuit breaker over units that are too small for one of their own: it hears of their rollouts' ends when a unit
 * has ended. Pure. A unit that was under way when somebody looked is not heard: its failures may be from before.
 */

import type { FailureClass } from '../../../agents/finish-reason.ts';
import { type BreakerSettings, CircuitBreaker, type Trip } from '../../failures/circuit-breaker.ts';
import type { BatchResult } from '../../messages/batch.ts';

/** Rollouts of a unit, as it reports them. */
export type UnitEnds = Pick<BatchResult, 'rollouts' | 'failures' | 'said'>;

export class UnitFailures {
  readonly #breaker: CircuitBreaker;
  readonly #inARow: number;
  #unheard = new Set<number>();

  constructor(settings: BreakerSettings) {
    this.#breaker = new CircuitBreaker(settings);
    this.#inARow = settings.inARow;
  }

  /**
   * Answers with a trip when this unit opens the breaker. In what order its rollouts ended is not known: its successes
   * count as the earlier ones. Failures of a unit that can see a row by itself are told by its own batch, sooner.
   */
  heard(unit: number, { rollouts, failures, said = {} }: UnitEnds): Trip | undefined {
    if (this.#unheard.delete(unit)) return undefined;
    const failed = Object.entries(failures) as Array<[FailureClass, number]>;
    const succeeded = rollouts - failed.reduce((sum, [, count]) => sum + count, 0);
    for (let i = 0; i < succeeded; i += 1) this.#breaker.heard({});
    if (rollouts >= this.#inARow) return undefined;
    for (const [failure, count] of failed) {
      for (let i = 0; i < count; i += 1) {
        const trip = this.#breaker.heard({ failure, message: said[failure] ?? '' });
        if (trip) return trip;
      }
    }
    return undefined;
  }

  /** Somebody has looked, while the units `running` ran. */
  reset(running: readonly number[]): void {
    this.#breaker.reset();
    this.#unheard = new Set(running);
  }
}
