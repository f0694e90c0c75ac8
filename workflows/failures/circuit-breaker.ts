/**
 * The circuit breaker: counts how rollouts end, and opens if machines, not the policy, fail repeatedly in the same way.
 * Pure; its caller acts on it (the run is paused). It reports once that it has opened, until it is reset.
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

/** The number of last ends that the breaker considers. */
export const windowOf = ({ maxConsecutiveFailures }: BreakerSettings): number => WINDOW * maxConsecutiveFailures;

/** Carried over to another history. */
export interface BreakerState {
  /** Oldest first, `windowOf` at most. */
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

  /** To be called in the order in which rollouts end. Returns a trip if this end opens the breaker. */
  add({ failure, message = '' }: Ended): Trip | undefined {
    if (this.#settings.maxConsecutiveFailures === 0 || this.#isOpen) return undefined;
    const counted = endOf(failure);
    this.#last = [...this.#last, counted].slice(-windowOf(this.#settings));
    const of = counted === null ? 0 : this.#reach(counted);
    if (of === 0 || counted === null) return undefined;
    this.#isOpen = true;
    return { failure: counted, failed: this.#last.slice(-of).filter((one) => one === counted).length, of, message };
  }

  /** Counts from zero, since an operator has resumed. */
  reset(): void {
    this.#last = [];
    this.#isOpen = false;
  }

  /** The number of last rollouts among which `failure` prevails; 0 if it does not. */
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
