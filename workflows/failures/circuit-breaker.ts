/**
 * The circuit breaker: hears how rollouts end, and opens when the machines, not the policy, fail the same way again and
 * again. Pure; what is done about it (the run is paused) is its caller's. Once it has opened it says so once, until it is reset.
 */

import type { BreakerSettings, Trip, End } from '../../protocol/breaker.ts';
import type { FailureClass } from '../../protocol/finish-reason.ts';
import { FAILURES } from '../../protocol/failure-policy.ts';

interface Ended {
  readonly failure?: FailureClass;
  readonly message?: string;
}

export function endOf(failure: FailureClass | undefined): End {
  return failure !== undefined && FAILURES[failure].breaks ? failure : null;
}

/** In multiples of `maxConsecutiveFailures`. */
const WINDOW = 4;

/** How many of the last ends it looks at. */
export const windowOf = ({ maxConsecutiveFailures }: BreakerSettings): number => WINDOW * maxConsecutiveFailures;

/** For another history. */
export interface BreakerState {
  /** Oldest first, as many as it looks at. */
  readonly last: readonly End[];
  readonly isOpen: boolean;
}

export class CircuitBreaker {
  readonly #settings: BreakerSettings;
  #last: readonly End[];
  #isOpen: boolean;

  constructor(settings: BreakerSettings, { last = [], isOpen = false }: Partial<BreakerState> = {}) {
    this.#settings = settings;
    this.#last = last;
    this.#isOpen = isOpen;
  }

  get state(): BreakerState {
    return { last: this.#last, isOpen: this.#isOpen };
  }

  /** In the order in which rollouts end; answers with a trip when this one opens it. */
  heard({ failure, message = '' }: Ended): Trip | undefined {
    if (this.#settings.maxConsecutiveFailures === 0 || this.#isOpen) return undefined;
    const counted = endOf(failure);
    this.#last = [...this.#last, counted].slice(-windowOf(this.#settings));
    const of = counted === null ? 0 : this.#reach(counted);
    if (of === 0 || counted === null) return undefined;
    this.#isOpen = true;
    return { failure: counted, failed: this.#last.slice(-of).filter((one) => one === counted).length, of, message };
  }

  /** Somebody has looked: it counts from nothing. */
  reset(): void {
    this.#last = [];
    this.#isOpen = false;
  }

  /** How many of the last rollouts say that `failure` prevails; 0: none do. */
  #reach(failure: FailureClass): number {
    const { maxConsecutiveFailures, share } = this.#settings;
    const row = this.#last.slice(-maxConsecutiveFailures);
    if (row.length === maxConsecutiveFailures && row.every((one) => one === failure)) return maxConsecutiveFailures;
    const failed = this.#last.filter((one) => one === failure).length;
    return this.#last.length === windowOf(this.#settings) && failed >= share * this.#last.length
      ? this.#last.length
      : 0;
  }
}
