/** A bucket of so much per minute, full at first: what is taken never exceeds what ran in. Pure; the clock is given. */

const MINUTE_MS = 60_000;

export class RateBucket {
  readonly #capacity: number;
  #level: number;
  #at: number;

  constructor(perMinute: number, now: number) {
    this.#capacity = perMinute;
    this.#level = perMinute;
    this.#at = now;
  }

  #refill(now: number): void {
    const gained = (Math.max(0, now - this.#at) * this.#capacity) / MINUTE_MS;
    this.#level = Math.min(this.#capacity, this.#level + gained);
    this.#at = Math.max(this.#at, now);
  }

  /** Milliseconds until `amount` is there; what is more than a minute's worth waits for a full bucket. */
  waitMs(amount: number, now: number): number {
    this.#refill(now);
    const lacking = Math.min(amount, this.#capacity) - this.#level;
    return lacking <= 0 ? 0 : Math.ceil((lacking * MINUTE_MS) / this.#capacity);
  }

  /** May go below zero, for what turned out larger than it was thought to be; what turned out smaller gives back. */
  take(amount: number, now: number): void {
    this.#refill(now);
    this.#level -= amount;
  }
}
