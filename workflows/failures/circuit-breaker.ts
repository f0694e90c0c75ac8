/**
 * The circuit breaker: hears how rollouts end, and opens when the machines, not the policy, fail the same way again and
 * again. Pure; what is done about it (the run is paused) is its caller's. Once it has opened it says so once, until it is reset.
 */

import type { FailureClass } from '../../agents/finish-reason.ts';
import { FAILURES } from './failure-policy.ts';

export interface BreakerSettings {
  /** Rollouts that fail alike, one after the other; 0: never. */
  readonly inARow: number;
  /** Or this share of the last four times as many: a success now and then hides nothing. */
  readonly share: number;
}

export const DEFAULT_BREAKER: BreakerSettings = { inARow: 8, share: 0.5 };

/** Why it opened. */
export interface Trip {
  readonly failure: FailureClass;
  /** Rollouts that failed so, of the last `of`. */
  readonly failed: number;
  readonly of: number;
  /** What the last of them said. */
  readonly message: string;
  /** What of the run, or of a rollout that is held, failed so after all its tries, for a person; absent: rollouts did. */
  readonly work?: string;
}

interface Ended {
  readonly failure?: FailureClass;
  readonly message?: string;
}

/** How a rollout ended: by a failure that says something of the machines, or otherwise. */
export type End = FailureClass | null;

export function endOf(failure: FailureClass | undefined): End {
  return failure !== undefined && FAILURES[failure].breaks ? failure : null;
}

/** In multiples of `inARow`. */
const WINDOW = 4;

/** How many of the last ends it looks at. */
export const windowOf = ({ inARow }: BreakerSettings): number => WINDOW * inARow;

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
    if (this.#settings.inARow === 0 || this.#isOpen) return undefined;
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
    const { inARow, share } = this.#settings;
    const row = this.#last.slice(-inARow);
    if (row.length === inARow && row.every((one) => one === failure)) return inARow;
    const failed = this.#last.filter((one) => one === failure).length;
    return this.#last.length === windowOf(this.#settings) && failed >= share * this.#last.length
      ? this.#last.length
      : 0;
  }
}

/** Of a step none of whose rollouts was graded: why most of them were masked. */
export function ungradedTrip({
  step,
  masked,
}: {
  readonly step: number;
  readonly masked: Readonly<Record<string, number>>;
}): Trip {
  const counts = Object.entries(masked).toSorted(([, a], [, b]) => b - a);
  const [failure, failed] = counts.find((one): one is [FailureClass, number] => Object.hasOwn(FAILURES, one[0])) ?? [
    'internal',
    0,
  ];
  const of = counts.reduce((sum, [, count]) => sum + count, 0);
  return { failure, failed, of, message: `no rollout of step ${step} was graded, and its policy is the one before` };
}

/** For a person: what failed, and what to do. */
export function tripLine({ failure, failed, of, message, work }: Trip): string {
  if (work !== undefined && failure === 'cancelled') {
    return `paused: ${work} was ended by hand (${message}); \`longhaul resume\` begins it again, \`longhaul cancel\` ends the run`;
  }
  if (work !== undefined && failure === 'quarantined')
    return `paused: ${work} is quarantined (${message}); ${FAILURES[failure].remedy}; then \`longhaul resume\` does it again`;
  if (work !== undefined)
    return `paused: ${work} failed as ${failure} on all its tries (${message}); ${FAILURES[failure].remedy}; then \`longhaul resume\` does it again`;
  return `paused by the circuit breaker: ${failed} of the last ${of} rollouts failed as ${failure} (${message}); ${FAILURES[failure].remedy}; then \`longhaul resume\``;
}
