/** A clock that stands still while nobody works: the time between two of its readings is that of work alone. Pure: it is told the time. */

export class WorkClock {
  /** Milliseconds that it stood still, without the present pause. */
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

  /** That it has stood still so far. */
  stoodMs(nowMs: number): number {
    return this.#stoodMs + (this.#since === null ? 0 : nowMs - this.#since);
  }

  reading(nowMs: number): number {
    return nowMs - this.stoodMs(nowMs);
  }
}
