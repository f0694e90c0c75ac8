/**
 * Whether a batch is paused, and why: its clock stops during a pause, and its rollouts receive each pause and each
 * resume. Pure, except for the signals that its relay sends.
 */

import type { Trip } from '../../protocol/breaker.ts';
import { PauseRelay } from '../pause-relay.ts';
import { WorkClock } from '../work-clock.ts';

/** Carried over to a long batch's next history. */
export interface PauseProgress {
  readonly paused: boolean;
  /** Why it paused by itself; absent: it did not. */
  readonly held?: Trip;
  /** How often it was resumed. */
  readonly resumed: number;
  /** Milliseconds of pauses since it started. */
  readonly stoodMs: number;
}

export class BatchPause {
  readonly relay: PauseRelay;
  readonly #clock: WorkClock;
  #paused: boolean;
  #held: Trip | null;
  #resumed: number;

  constructor({ paused = false, held, resumed = 0, stoodMs = 0 }: Partial<PauseProgress> = {}) {
    this.relay = new PauseRelay(paused);
    this.#clock = new WorkClock(stoodMs);
    this.#paused = paused;
    this.#held = held ?? null;
    this.#resumed = resumed;
    if (paused) this.#clock.stop(Date.now());
  }

  get isPaused(): boolean {
    return this.#paused;
  }

  get held(): Trip | null {
    return this.#held;
  }

  get resumed(): number {
    return this.#resumed;
  }

  get progress(): PauseProgress {
    return {
      paused: this.#paused,
      ...(this.#held && { held: this.#held }),
      resumed: this.#resumed,
      stoodMs: this.#clock.stoppedMs(Date.now()),
    };
  }

  /** Milliseconds, without pauses. */
  get clockMs(): number {
    return this.#clock.reading(Date.now());
  }

  pause(): void {
    this.#paused = true;
    this.relay.set(true);
    this.#clock.stop(Date.now());
  }

  resume(): void {
    this.#paused = false;
    this.relay.set(false);
    this.#held = null;
    this.#resumed += 1;
    this.#clock.resume(Date.now());
  }

  /**
   * One of its rollouts is held: the batch pauses with it. False if another one was held already since the last resume.
   */
  hold(rollout: string, trip: Trip): boolean {
    this.relay.markHeld(rollout);
    this.pause();
    if (this.#held) return false;
    this.#held = trip;
    return true;
  }
}
