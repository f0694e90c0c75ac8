/**
 * How long a rollout has spent on its turns: from its first sandbox on, without the time that it stood still, and over
 * all of its histories. Pure: it is told the time.
 */

import { OUTAGE_SECONDS } from '../failures/failure-policy.ts';
import type { LoopEvent } from './rollout-loop.ts';

export class RolloutClock {
  readonly #deadlineSeconds: number;
  /** Milliseconds at which it would have begun if it had never stood still; `null` before its first sandbox. */
  #begun: number | null;

  /** `spentMs`: in earlier histories; `null` where it had no sandbox yet. */
  constructor(deadlineSeconds: number, spentMs: number | null, now: number) {
    this.#deadlineSeconds = deadlineSeconds;
    this.#begun = spentMs === null ? null : now - spentMs;
  }

  /** Heard once; a later attempt's sandbox starts nothing anew. */
  start(now: number): void {
    this.#begun ??= now;
  }

  stoodStill(ms: number): void {
    if (this.#begun !== null) this.#begun += ms;
  }

  spentMs(now: number): number | null {
    return this.#begun === null ? null : now - this.#begun;
  }

  /** Before its first sandbox it waits for room, which is none of its own time. */
  leftMs(now: number): number {
    const spent = this.spentMs(now);
    return spent === null ? OUTAGE_SECONDS * 1000 : Math.ceil(this.#deadlineSeconds * 1000 - spent);
  }

  passed(): Extract<LoopEvent, { type: 'failed' }> {
    return { type: 'failed', failure: 'deadline', message: `agent.deadlineSeconds: ${this.#deadlineSeconds} s were spent on its turns` };
  }
}
