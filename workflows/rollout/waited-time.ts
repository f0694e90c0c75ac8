/** How long calls of a program have waited for something that is not the program's doing. Times in ms. Pure. */

import type { FinishReason } from '../../protocol/finish-reason.ts';

/**
 * A program that waited longer may have given up because of it: its libraries and its own time limit know no pauses.
 */
export const MOST_WAITED_MS = 60_000;

/** Calls that wait side by side count once. */
export class WaitedTime {
  #ms: number;
  #waiting = 0;
  /** Since when one waits, or until when all that waited is counted. */
  #since = 0;
  #isOver = false;

  /** `ms`: waited before. */
  constructor(ms = 0) {
    this.#ms = ms;
  }

  begin(now: number): void {
    if (this.#waiting === 0) this.#since = now;
    this.#waiting += 1;
  }

  end(now: number): void {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#count(this.#since, now);
  }

  /** A call was lost on its way until now. */
  lost(since: number, now: number): void {
    if (this.#waiting === 0) this.#count(Math.max(since, this.#since), now);
  }

  /** The program has ended: what its calls wait from now on does not change its end. */
  stop(now: number): void {
    if (this.#waiting > 0) this.#count(this.#since, now);
    this.#isOver = true;
  }

  ms(now: number): number {
    return this.#ms + (this.#waiting > 0 && !this.#isOver ? now - this.#since : 0);
  }

  #count(from: number, to: number): void {
    if (!this.#isOver) this.#ms += Math.max(0, to - from);
    this.#since = to;
  }
}

/** True if the end of a program may be due to its waits: then it says nothing about the policy. */
export function isDueToWaits(finish: FinishReason, waitedMs: number): boolean {
  return (finish === 'program-timeout' || finish === 'program-failed') && waitedMs > MOST_WAITED_MS;
}
