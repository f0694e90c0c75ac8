/**
 * Whether a run is paused, and where: its rollouts before their next turn, or the run before its next step. An
 * operator, the circuit breaker or failed work of the run pauses it; only a resume ends the pause.
 */

import { CancellationScope, condition, log } from '@temporalio/workflow';
import type { Details } from '../details.ts';
import { type Trip, tripLine, ungradedTrip } from '../../protocol/breaker.ts';
import { mendable } from '../failures/mendable.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import type { PausePoint, TrainStatus } from '../../protocol/train-status.ts';
import { PauseRelay } from '../pause-relay.ts';
import type { HoursBudget } from '../hours-budget.ts';
import { WorkClock } from '../work-clock.ts';

export interface PausedBefore {
  readonly tripped?: Trip | null;
  readonly recorded?: number;
}

export class RunPause {
  readonly #run: string;
  readonly #details: Details;
  /** True if the run pauses on failures of machines. */
  readonly #breaks: boolean;
  /** The last step that was recorded when the run started. */
  readonly #recorded: number;
  #at: PausePoint | null = null;
  /** Why the circuit breaker paused it. */
  #tripped: Trip | null;
  /** The step in which it last paused the run. */
  #trippedIn = 0;
  /** True while the run waits between two steps for the end of a pause. */
  #waits = false;
  /** Stops while the run's rollouts are paused, except during work that a pause does not stop. */
  readonly #clock = new WorkClock();
  readonly #hours: HoursBudget;
  #works = 0;
  /** Sends pauses at a turn to running batches. */
  readonly relay = new PauseRelay();

  /** `breaks`: true if the run pauses on failures of machines; otherwise it ends. */
  constructor(
    run: string,
    { details, breaks, hours }: { readonly details: Details; readonly breaks: boolean; readonly hours: HoursBudget },
    { tripped = null, recorded = 0 }: PausedBefore,
  ) {
    this.#run = run;
    this.#details = details;
    this.#breaks = breaks;
    this.#hours = hours;
    this.#tripped = tripped;
    this.#recorded = recorded;
    if (tripped) details.paused(tripLine(tripped, run));
  }

  get at(): PausePoint | null {
    return this.#at;
  }

  get tripped(): Trip | null {
    return this.#tripped;
  }

  get recorded(): number {
    return this.#recorded;
  }

  get isStill(): boolean {
    return this.#at === 'turn' || (this.#at === 'step' && this.#waits);
  }

  get status(): Pick<TrainStatus, 'pauseAt' | 'tripped'> {
    return {
      ...(this.#at === null ? {} : { pauseAt: this.#at }),
      ...(this.#tripped === null ? {} : { tripped: this.#tripped }),
    };
  }

  /** In milliseconds, by a clock that stops while the run is paused. */
  get clockMs(): number {
    return this.#clock.reading(Date.now());
  }

  /** `null`: resumes. Running rollouts are notified. Returns true if this ended a pause. */
  set(point: PausePoint | null): boolean {
    const ended = point === null && this.#at !== null;
    this.#at = point;
    this.#hours.changed(this.isStill);
    this.#setClock();
    if (point === null) {
      this.#tripped = null;
      this.#details.paused(null);
    }
    this.relay.set(point === 'turn');
    return ended;
  }

  /** Shows why the run is paused: something in `step` failed. */
  trip(trip: Trip, step: number): void {
    this.#tripped = trip;
    this.#trippedIn = step;
    log.warn(tripLine(trip, this.#run), { run: this.#run });
    this.#details.paused(tripLine(trip, this.#run));
  }

  /**
   * Pauses after a step without graded rollouts, before further steps fail in the same way. Not if an operator knows
   * already: the step was recorded before a restart, or the run has paused in it.
   */
  checkGraded(record: StepRecord): void {
    if (record.valid > 0 || record.step <= this.#recorded || this.#trippedIn === record.step || this.#at !== null)
      return;
    this.set('turn');
    this.trip(ungradedTrip(record), record.step);
  }

  /** Waits for the end of a pause, before a step or an evaluation. */
  async untilResumed(): Promise<void> {
    this.#waits = true;
    if (this.#at !== null) this.#hours.changed(this.isStill);
    await condition(() => this.#at === null);
    this.#waits = false;
  }

  /** Waits within a step, where only a pause at a turn has an effect. */
  mayBegin(): Promise<void> {
    return condition(() => this.#at !== 'turn');
  }

  /** For `work` that continues during a pause, as an update does: its time counts. */
  atWork<T>(work: Promise<T>): Promise<T> {
    const change = (by: number) => {
      this.#works += by;
      this.#setClock();
    };
    change(1);
    const over = () => change(-1);
    void work.then(over, over);
    return work;
  }

  #setClock(): void {
    if (this.#at === 'turn' && this.#works === 0) this.#clock.stop(Date.now());
    else this.#clock.resume(Date.now());
  }

  /**
   * Does `doIt`. If machines fail all its attempts, the run pauses, shows why, and repeats it when it is resumed.
   * Errors: those of `doIt` that machines did not cause.
   */
  async untilMended<T>(work: string, step: number, doIt: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await doIt();
      } catch (error) {
        const failure = this.#breaks && !CancellationScope.current().consideredCancelled ? mendable(error) : undefined;
        if (!failure) throw error;
        this.set('turn');
        this.trip({ ...failure, failed: 1, of: 1, work }, step);
        await this.mayBegin();
      }
    }
  }
}
