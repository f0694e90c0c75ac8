/**
 * A queue of writers for one store. Only one of them tries at a time, since a try at a locked store blocks the whole
 * process; between two tries the process does its other work. If the first writer is locked out for too long, all
 * writers in the queue fail.
 */

import { setImmediate as otherWork, setTimeout as sleep } from 'node:timers/promises';
import { classifyDiskError, StoreBusy } from './disk-errors.ts';

/** How long the first writer tries before it fails, and the pauses between its tries. In milliseconds. */
export interface WriteQueueTimes {
  readonly withinMs: number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

/** The first pause is short, since other workers' transactions take milliseconds. */
export const WRITERS: WriteQueueTimes = { withinMs: 5_000, firstPauseMs: 20, longestPauseMs: 800 };

interface Call {
  /** Tries the work once. Returns the function that passes the result to the caller. */
  readonly tried: () => Promise<() => void>;
  readonly refuse: (error: unknown) => void;
}

export class WriteQueue {
  readonly #place: string;
  readonly #times: WriteQueueTimes;
  readonly #calls: Call[] = [];

  constructor(place: string, times: WriteQueueTimes = WRITERS) {
    this.#place = place;
    this.#times = times;
  }

  /**
   * Runs `work` when it is first in the queue. It must be safe to repeat.
   * Errors: `StoreBusy` if the first in the queue was locked out throughout `withinMs`; those of `work`.
   */
  enter<T>(work: () => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const tried = async () => {
      const result = await work();
      return () => resolve(result);
    };
    this.#calls.push({ tried, refuse: reject });
    if (this.#calls.length === 1) void this.#serve();
    return promise;
  }

  async #serve(): Promise<void> {
    for (let [first] = this.#calls; first; [first] = this.#calls) {
      try {
        const settle = await this.#letIn(first);
        this.#calls.shift();
        settle();
      } catch (error) {
        const refused = this.#calls.splice(0, error instanceof StoreBusy ? this.#calls.length : 1);
        for (const { refuse } of refused) refuse(error);
      }
      if (this.#calls.length > 0) await otherWork();
    }
  }

  async #letIn({ tried }: Call): Promise<() => void> {
    const { withinMs, firstPauseMs, longestPauseMs } = this.#times;
    const until = performance.now() + withinMs;
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        return await tried();
      } catch (thrown) {
        const error = classifyDiskError(thrown, this.#place);
        if (!(error instanceof StoreBusy) || performance.now() + pause > until) throw error;
      }
      await sleep(pause);
    }
  }
}
