/**
 * What the model calls of a run or an eval have used, by who made them: `policy`, or `judge/NAME`. It follows from the
 * events `spent`, of which a call has one however often it was repeated.
 */

import { NOTHING_SPENT, plus, type Spending, type Spent } from '../protocol/budget.ts';
import type { RolloutEvent, Store } from '../store/store.ts';

export const POLICY = 'policy';
export const byJudge = (name: string): string => `judge/${name}`;

/** The detail of an event `spent`. */
export function spendingOf({ event, detail }: Pick<RolloutEvent, 'event' | 'detail'>): Spending | undefined {
  return event === 'spent' && detail !== undefined ? (JSON.parse(detail) as Spending) : undefined;
}

/** The event of one call. Equal for every repetition of the call. */
export function spentEvent(
  { run, rollout, attempt }: Pick<RolloutEvent, 'run' | 'rollout' | 'attempt'>,
  spending: Spending,
): RolloutEvent {
  return { run, rollout, attempt, event: 'spent', at: new Date().toISOString(), detail: JSON.stringify(spending) };
}

/** By `policy` or `judge/NAME`. */
export type SpentBy = ReadonlyMap<string, Spent>;

/** What all of them used. */
export function together(all: readonly Spent[]): Spent {
  const sum = (field: keyof Spent) => all.reduce((total, one) => total + one[field], 0);
  return {
    calls: sum('calls'),
    prompt: sum('prompt'),
    sampled: sum('sampled'),
    usd: sum('usd'),
    seconds: sum('seconds'),
  };
}

export const sumOf = (spent: SpentBy): Spent => together([...spent.values()]);

/** Metrics of judges: `judge/NAME/calls`, `tokens`, `usd` and `seconds`. */
export function judgeMetrics(spent: ReadonlyArray<readonly [by: string, spent: Spent]>): Record<string, number> {
  const judges = [...new Set(spent.map(([by]) => by))].filter((by) => by !== POLICY);
  return Object.fromEntries(
    judges.flatMap((by) => {
      const { calls, prompt, sampled, usd, seconds } = together(
        spent.flatMap(([other, one]) => (other === by ? [one] : [])),
      );
      return Object.entries({ calls, tokens: prompt + sampled, usd, seconds }).map(([name, value]) => [
        `${by}/${name}`,
        value,
      ]);
    }),
  );
}

/** What reports need of a run's spending. */
export interface SpendingReport {
  readonly by: SpentBy;
  /** Of the rollouts of these batches (`step-3`): those of `judgeMetrics`. */
  metrics(batches: readonly string[]): Record<string, number>;
}

/** `train/RUN/BATCH/TASK/K`. */
export const batchOf = (rollout: string): string => rollout.split('/')[2] ?? '';

/** Adds up events in any order. */
export class SpendingTally implements SpendingReport {
  readonly by = new Map<string, Spent>();
  readonly #byBatch = new Map<string, Map<string, Spent>>();

  add(event: Pick<RolloutEvent, 'event' | 'detail' | 'rollout'>): void {
    const spending = spendingOf(event);
    if (!spending) return;
    const batch = batchOf(event.rollout);
    const ofBatch = this.#byBatch.get(batch) ?? new Map<string, Spent>();
    this.#byBatch.set(batch, ofBatch);
    for (const spent of [this.by, ofBatch])
      spent.set(spending.by, plus(spent.get(spending.by) ?? NOTHING_SPENT, spending));
  }

  metrics(batches: readonly string[]): Record<string, number> {
    return judgeMetrics(batches.flatMap((batch) => [...(this.#byBatch.get(batch) ?? [])]));
  }
}

/** Runs that are kept in memory. An evicted one is read again. */
const KEPT = 16;

/** What runs have used until now, for this process. Each event is read once. */
export class SpendingLedger {
  readonly #store: Pick<Store, 'eventsSince'>;
  readonly #known = new Map<string, { readonly tally: SpendingTally; last: number; reading: Promise<void> }>();

  constructor(store: Pick<Store, 'eventsSince'>) {
    this.#store = store;
  }

  /** With all events that are in the store now. */
  async of(run: string): Promise<SpentBy> {
    const entry = this.#known.get(run) ?? { tally: new SpendingTally(), last: 0, reading: Promise.resolve() };
    this.#known.delete(run);
    this.#known.set(run, entry);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= KEPT) break;
      this.#known.delete(oldest);
    }
    // Readers run one after the other, so that no event counts twice. If one fails, the next reads what remains.
    entry.reading = entry.reading
      .catch(() => undefined)
      .then(async () => {
        const { events, last } = await this.#store.eventsSince(run, entry.last);
        for (const event of events) entry.tally.add(event);
        entry.last = last;
      });
    await entry.reading;
    return entry.tally.by;
  }
}
