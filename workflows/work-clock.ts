/**
 * A clock that stops while nobody works: the difference of two readings is work time alone. Pure: callers pass the
 * time.
 */

export class WorkClock {
  /** Milliseconds for which it was stopped, without the current stop. */
  #stoppedMs: number;
  #since: number | null = null;

  constructor(stoppedMs = 0) {
    this.#stoppedMs = stoppedMs;
  }

  stop(nowMs: number): void {
    this.#since ??= nowMs;
  }

  resume(nowMs: number): void {
    this.#stoppedMs = this.stoppedMs(nowMs);
    this.#since = null;
  }

  /** Milliseconds for which it was stopped so far. */
  stoppedMs(nowMs: number): number {
    return this.#stoppedMs + (this.#since === null ? 0 : nowMs - this.#since);
  }

  reading(nowMs: number): number {
    return nowMs - this.stoppedMs(nowMs);
  }
}
