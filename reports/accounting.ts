/** Counts how every dispatched rollout ended, from the append-only table only. */

import type { RolloutEvent, RolloutEventName } from '../store/store.ts';

export interface Accounting {
  readonly dispatched: number;
  readonly trained: number;
  readonly masked: number;
  readonly dropped: number;
  readonly evaluated: number;
  /** Rollouts with more than one reported end, whether the second was recorded or refused. */
  readonly duplicated: number;
  /** Rollouts without an end, of a run that is over. */
  readonly lost: number;
}

const ENDS: ReadonlySet<RolloutEventName> = new Set(['trained', 'masked', 'dropped', 'evaluated']);

/** The account of a run, updated event by event. */
export class Account {
  readonly #dispatched = new Set<string>();
  readonly #firstEnd = new Map<string, RolloutEventName>();
  readonly #counts = new Map<RolloutEventName, number>();
  readonly #again = new Set<string>();

  /** Events must be added in the order of the table. */
  add({ rollout, event }: RolloutEvent): void {
    if (event === 'end-refused') this.#again.add(rollout);
    if (event === 'dispatched') this.#dispatched.add(rollout);
    if (!ENDS.has(event)) return;
    if (this.#firstEnd.has(rollout)) {
      this.#again.add(rollout);
      return;
    }
    this.#firstEnd.set(rollout, event);
    this.#counts.set(event, (this.#counts.get(event) ?? 0) + 1);
  }

  /**
   * `over`: the run has ended, so that a rollout without an end is lost, not in flight. `stopped`: the run failed or
   * was cancelled, so that a rollout without an end counts as masked.
   */
  totals(over: boolean, stopped = false): Accounting {
    const count = (name: RolloutEventName) => this.#counts.get(name) ?? 0;
    const open = over ? [...this.#dispatched].filter((rollout) => !this.#firstEnd.has(rollout)).length : 0;
    return {
      dispatched: this.#dispatched.size,
      trained: count('trained'),
      masked: count('masked') + (stopped ? open : 0),
      dropped: count('dropped'),
      evaluated: count('evaluated'),
      duplicated: this.#again.size,
      lost: stopped ? 0 : open,
    };
  }
}

/** The account of all events of a run. */
export function accountFor(events: readonly RolloutEvent[], over: boolean): Accounting {
  const account = new Account();
  for (const event of events) account.add(event);
  return account.totals(over);
}
