/**
 * Admits requests to one endpoint in order of arrival: never more concurrently than allowed, in the long run never more
 * per minute (the first minute may have twice as many), and none during a wait that the server requested.
 */

export interface RateLimits {
  readonly maxConcurrent: number;
  readonly requestsPerMinute?: number | undefined;
  readonly tokensPerMinute?: number | undefined;
}

interface Waiter {
  readonly tokens: number;
  readonly begin: () => void;
}

export class RateLimiter {
  readonly #limits: RateLimits;
  readonly #requests: RateBucket | undefined;
  readonly #tokens: RateBucket | undefined;
  readonly #waiting: Waiter[] = [];
  #running = 0;
  #notBefore = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: RateLimits) {
    this.#limits = limits;
    const bucket = (perMinute: number | undefined) => (perMinute ? new RateBucket(perMinute, Date.now()) : undefined);
    this.#requests = bucket(limits.requestsPerMinute);
    this.#tokens = bucket(limits.tokensPerMinute);
  }

  /** Starts no request for `ms` milliseconds: the server's limit applies to all requests. */
  pause(ms: number): void {
    this.#notBefore = Math.max(this.#notBefore, Date.now() + ms);
  }

  /**
   * Charges tokens that a `body` used beyond its estimate (negative if fewer). Call it before `body` returns, so that
   * it affects the next request.
   */
  charge(tokens: number): void {
    this.#tokens?.take(tokens, Date.now());
  }

  /**
   * Runs `body` when it is admitted. `tokens`: the estimate of the tokens that it uses at most. Errors: the reason of
   * `signal`.
   */
  async run<T>(tokens: number, signal: AbortSignal, body: () => Promise<T>): Promise<T> {
    await this.#enter(tokens, signal);
    try {
      return await body();
    } finally {
      this.#running -= 1;
      this.#admit();
    }
  }

  #enter(tokens: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(signal.reason as Error);
        this.#admit();
      };
      const waiter: Waiter = {
        tokens,
        begin: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(waiter);
      this.#admit();
    });
  }

  #admit(): void {
    clearTimeout(this.#timer);
    for (let next = this.#waiting[0]; next && this.#running < this.#limits.maxConcurrent; next = this.#waiting[0]) {
      const now = Date.now();
      const wait = Math.max(
        this.#notBefore - now,
        this.#requests?.waitMs(1, now) ?? 0,
        this.#tokens?.waitMs(next.tokens, now) ?? 0,
      );
      if (wait > 0) {
        this.#timer = setTimeout(() => this.#admit(), wait);
        return;
      }
      this.#requests?.take(1, now);
      this.#tokens?.take(next.tokens, now);
      this.#running += 1;
      this.#waiting.shift();
      next.begin();
    }
  }
}

const MINUTE_MS = 60_000;

/** A bucket of the requests or tokens per minute: full at first, and refilled evenly. */
class RateBucket {
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

  /** Milliseconds until `amount` is available. A larger amount than the bucket holds waits until it is full. */
  waitMs(amount: number, now: number): number {
    this.#refill(now);
    const lacking = Math.min(amount, this.#capacity) - this.#level;
    return lacking <= 0 ? 0 : Math.ceil((lacking * MINUTE_MS) / this.#capacity);
  }

  /**
   * Takes `amount`. The level may become negative if a request used more than estimated. A negative amount gives back.
   */
  take(amount: number, now: number): void {
    this.#refill(now);
    this.#level -= amount;
  }
}
