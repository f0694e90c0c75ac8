/**
 * A clock that stops while nobody works: the difference of two readings is work time alone. Pure: callers pass the
 * time.
 */

export class WorkClock {
  /** Milliseconds for which it was stopped, without the current stop. */
  #stoodMs: number;
  #since: number | null = null;

  constructor(stoodMs = 0) {
    this.#stoodMs = stoodMs;
  }

  stop(nowMs: number): void {
    this.#since ??= nowMs;
  }

  goOn(nowMs: number): void {
    this.#stoodMs = this.stoodMs(nowMs);
    this.#since = null;
  }

  /** Milliseconds for which it was stopped so far. */
  stoodMs(nowMs: number): number {
    return this.#stoodMs + (this.#since === null ? 0 : nowMs - this.#since);
  }

  reading(nowMs: number): number {
    return nowMs - this.stoodMs(nowMs);
  }
}
