/**
 * Whether a run stands still, and where: its rollouts before their next turn, or the run before its next step. Whoever
 * pauses it, a person, the circuit breaker or work of its own that failed, it goes on only when it is resumed.
 */

import { CancellationScope, condition, log } from '@temporalio/workflow';
import type { Details } from '../details.ts';
import { type Trip, tripLine, ungradedTrip } from '../../protocol/breaker.ts';
import { mendable } from '../failures/mendable.ts';
import type { StepRecord } from '../../protocol/step-record.ts';
import type { PausePoint, TrainStatus } from '../../protocol/train-status.ts';
import { PauseRelay } from '../pause-relay.ts';
import { WorkClock } from '../work-clock.ts';

export interface PausedBefore {
  readonly tripped?: Trip | null;
  readonly recorded?: number;
}

export class RunPause {
  readonly #run: string;
  readonly #details: Details;
  /** Whether it pauses for what failed. */
  readonly #breaks: boolean;
  /** The last step that was on record when the run began. */
  readonly #recorded: number;
  #at: PausePoint | null = null;
  /** Why the circuit breaker paused it. */
  #tripped: Trip | null;
  /** The step in which it last did. */
  #trippedIn = 0;
  /** Waits for the end of a pause between two steps. */
  #stands = false;
  /** Stands still with the run's rollouts, but not while something is done that no pause holds up. */
  readonly #clock = new WorkClock();
  #works = 0;
  /** Batches that run hear of a pause at a turn. */
  readonly relay = new PauseRelay();

  /** `breaks`: whether the run is paused for what failed, or ends. */
  constructor(
    run: string,
    { details, breaks }: { readonly details: Details; readonly breaks: boolean },
    { tripped = null, recorded = 0 }: PausedBefore,
  ) {
    this.#run = run;
    this.#details = details;
    this.#breaks = breaks;
    this.#tripped = tripped;
    this.#recorded = recorded;
    if (tripped) details.standsStill(tripLine(tripped));
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
    return this.#at === 'turn' || (this.#at === 'step' && this.#stands);
  }

  get status(): Pick<TrainStatus, 'pauseAt' | 'tripped'> {
    return {
      ...(this.#at === null ? {} : { pauseAt: this.#at }),
      ...(this.#tripped === null ? {} : { tripped: this.#tripped }),
    };
  }

  /** Milliseconds, by a clock that stands still with the run. */
  get clockMs(): number {
    return this.#clock.reading(Date.now());
  }

  /** `null`: goes on. Rollouts that run hear of it. True where a pause has ended. */
  set(point: PausePoint | null): boolean {
    const ended = point === null && this.#at !== null;
    this.#at = point;
    this.#setClock();
    if (point === null) {
      this.#tripped = null;
      this.#details.standsStill(null);
    }
    this.relay.set(point === 'turn');
    return ended;
  }

  /** Something of `step` failed: nothing begins until somebody has looked and resumes it. */
  trip(trip: Trip, step: number): void {
    this.#tripped = trip;
    this.#trippedIn = step;
    log.warn(tripLine(trip), { run: this.#run });
    this.#details.standsStill(tripLine(trip));
  }

  /** Somebody has to look before further steps go the same way; who did during this step need not be told again. */
  checkGraded(record: StepRecord): void {
    if (record.valid > 0 || record.step <= this.#recorded || this.#trippedIn === record.step || this.#at !== null)
      return;
    this.set('turn');
    this.trip(ungradedTrip(record), record.step);
  }

  /** Before a step or an evaluation. */
  async untilResumed(): Promise<void> {
    this.#stands = true;
    await condition(() => this.#at === null);
    this.#stands = false;
  }

  /** Within a step, only a pause at a turn holds anything up. */
  mayBegin(): Promise<void> {
    return condition(() => this.#at !== 'turn');
  }

  /** `work` goes on during a pause, as an update does: its time counts. */
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
    else this.#clock.goOn(Date.now());
  }

  /**
   * Does `doIt`; where machines failed it on all its tries the run stands still, says so, and does the same again when it
   * is resumed. Errors: those of `doIt` that no machine is to blame for.
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
