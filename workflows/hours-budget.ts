/**
 * The wall time in which a run or an eval was not paused, over all its histories and starts, and the limit on it. A
 * timer runs only while there is a limit.
 */

import { condition, isCancellation } from '@temporalio/workflow';
import type { Trip } from '../protocol/breaker.ts';
import { WorkClock } from './work-clock.ts';

const HOUR_MS = 3_600_000;
const LONGEST_TIMER_MS = 7 * 86_400_000;

/** What the clock needs to know of its run, at any time. */
export interface Budgeted {
  /** A run by its name, an eval as `eval/ID`. */
  readonly name: string;
  /** The limit, in hours. `undefined`: there is none. */
  readonly hours: () => number | undefined;
  readonly isStill: () => boolean;
  /** Pauses the run. */
  readonly spent: (trip: Trip) => void;
}

export class HoursBudget {
  readonly #before: number;
  readonly #clock = new WorkClock();
  readonly #begun: number;
  /** Counts pauses, resumes and changes of the limit. */
  #changes = 0;

  /** `workedMs`: in earlier histories and starts. */
  constructor(workedMs = 0) {
    this.#before = workedMs;
    this.#begun = Date.now();
  }

  get workedMs(): number {
    return this.#before + this.#clock.reading(Date.now()) - this.#begun;
  }

  /** Called after each pause, resume, and change of the limit. */
  changed(isStill: boolean): void {
    this.#changes += 1;
    if (isStill) this.#clock.stop(Date.now());
    else this.#clock.resume(Date.now());
  }

  /** Ends with the workflow's history, or when the workflow is cancelled. */
  async watch(budgeted: Budgeted): Promise<void> {
    try {
      await this.#watch(budgeted);
    } catch (error) {
      if (!isCancellation(error)) throw error;
    }
  }

  async #watch({ name, hours, isStill, spent }: Budgeted): Promise<never> {
    for (;;) {
      const seen = this.#changes;
      const hasChanged = () => this.#changes !== seen;
      const limit = hours();
      const leftMs = limit === undefined ? undefined : limit * HOUR_MS - this.workedMs;
      if (leftMs === undefined || isStill()) await condition(hasChanged);
      else if (leftMs > 0) await condition(hasChanged, Math.min(Math.ceil(leftMs), LONGEST_TIMER_MS));
      else {
        spent(this.#trip(name, limit ?? 0));
        await condition(hasChanged);
      }
    }
  }

  #trip(name: string, limit: number): Trip {
    const used = Math.round((this.workedMs / HOUR_MS) * 1000) / 1000;
    const message =
      `${name} has worked ${used} of budget.hours, which is ${limit}: ` +
      `npx longhaul set ${name} budget.hours=${limit * 2}, then npx longhaul resume ${name}`;
    return { failure: 'budget-spent', failed: 0, of: 0, message, work: name };
  }
}
