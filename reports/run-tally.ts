/**
 * The numbers in a run's files that come from its events. Each event is read once: a run of weeks has millions of
 * events, and its files are written after every step.
 */

import { Account } from './accounting.ts';
import type { RolloutEvent, Store } from '../store/store.ts';
import { type SpendingReport, SpendingTally } from './spending.ts';
import { TrajectoryTimes } from './trajectory-times.ts';

const ENDS: ReadonlySet<string> = new Set(['trained', 'masked', 'dropped', 'evaluated']);

/** Number of runs with a tally in memory. An evicted run is read again. */
const KEPT = 16;

/** What reports need of a run's events. */
export interface Tally {
  readonly account: Pick<Account, 'totals'>;
  readonly times: Pick<TrajectoryTimes, 'metrics'>;
  readonly batchEnds: ReadonlyMap<string, number>;
  readonly spending: SpendingReport;
}

export interface Tallies {
  /** The run's tally, with all events that are in the store now. */
  of(run: string): Promise<Tally>;
}

export class RunTally implements Tally {
  readonly account = new Account();
  /** By batch name (`step-3`, `eval-0-sampled`): the end of its last rollout, in seconds since the epoch. */
  readonly batchEnds = new Map<string, number>();
  readonly times = new TrajectoryTimes();
  readonly spending = new SpendingTally();

  add(event: RolloutEvent): void {
    this.account.add(event);
    this.times.add(event);
    this.spending.add(event);
    if (!ENDS.has(event.event)) return;
    const batch = event.rollout.split('/')[2] ?? '';
    this.batchEnds.set(batch, Math.max(this.batchEnds.get(batch) ?? 0, Date.parse(event.at) / 1000));
  }
}

/** The tallies of one process, from all events. Other processes have their own, with equal results. */
export class RunTallies implements Tallies {
  readonly #store: Store;
  readonly #known = new Map<string, { readonly tally: RunTally; last: number; reading: Promise<void> }>();

  constructor(store: Store) {
    this.#store = store;
  }

  async of(run: string): Promise<RunTally> {
    const entry = this.#known.get(run) ?? { tally: new RunTally(), last: 0, reading: Promise.resolve() };
    this.#known.delete(run);
    this.#known.set(run, entry);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= KEPT) break;
      this.#known.delete(oldest);
    }
    // Readers run one after the other, so that no event counts twice. If one fails, the next reads what remains.
    const read = entry.reading
      .catch(() => undefined)
      .then(async () => {
        const { events, last } = await this.#store.eventsSince(run, entry.last);
        for (const event of events) entry.tally.add(event);
        entry.last = last;
      });
    entry.reading = read;
    await read;
    return entry.tally;
  }
}
