/**
 * The writers of one store, in line: one of them tries at a time, since a try at a locked store holds the whole process
 * up, and between two tries the process does its other work. What the first is refused, all behind it are.
 */

import { setImmediate as otherWork, setTimeout as sleep } from 'node:timers/promises';
import { classifyDiskError, StoreBusy } from './disk-errors.ts';

/** How long the first is let try before it is refused, and the pauses between its tries; milliseconds. */
export interface WriteQueueTimes {
  readonly withinMs: number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

/** Short at first: other workers' transactions take milliseconds. */
export const WRITERS: WriteQueueTimes = { withinMs: 5_000, firstPauseMs: 20, longestPauseMs: 800 };

interface Call {
  /** Gives what tells its caller of the result. */
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
   * Does `work` in its turn; it must be safe to repeat.
   * Errors: `StoreBusy` where the first in line was locked out throughout `withinMs`; those of `work`.
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
        const tell = await this.#letIn(first);
        this.#calls.shift();
        tell();
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
