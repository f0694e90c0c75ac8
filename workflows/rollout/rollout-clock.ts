/**
 * How long a rollout has spent on its turns: from its first sandbox on, without the time that it stood still, and over
 * all of its histories; and how much of that was the policy's own. Pure: it is told the time.
 */

import { OUTAGE_SECONDS } from '../../protocol/failure-policy.ts';
import type { AgentSettings } from '../../protocol/rollout.ts';
import type { LoopEvent, LoopState } from './rollout-loop.ts';

/** From here on a deadline that passes is the policy's own doing: most of the time went into what it sampled and ran. */
const OWN_SHARE = 1 / 2;

/** Over all of a rollout's histories. */
export interface Spent {
  /** Absent: it had no sandbox yet. */
  readonly spentMs: number | null;
  /** Absent: nothing. */
  readonly ownMs?: number;
}

export class RolloutClock {
  readonly #deadlineSeconds: number;
  readonly #atDeadline: Required<AgentSettings>['atDeadline'];
  /** Milliseconds at which it would have begun if it had never stood still; `null` before its first sandbox. */
  #begun: number | null;
  /** Of the present attempt. */
  #ownMs: number;

  constructor(
    { deadlineSeconds, atDeadline }: Pick<Required<AgentSettings>, 'deadlineSeconds' | 'atDeadline'>,
    { spentMs, ownMs = 0 }: Spent,
    now: number,
  ) {
    this.#deadlineSeconds = deadlineSeconds;
    this.#atDeadline = atDeadline;
    this.#begun = spentMs === null ? null : now - spentMs;
    this.#ownMs = ownMs;
  }

  spent(now: number): Spent {
    return { spentMs: this.spentMs(now), ...(this.#ownMs > 0 && { ownMs: this.#ownMs }) };
  }

  /** A turn: what the policy itself took for it, as the engine and the sandbox tell, and what machines took beside. */
  heard({ ms = 0, lostMs = 0 }: { readonly ms?: number; readonly lostMs?: number }): void {
    this.#ownMs += ms;
    this.stoodStill(lostMs);
  }

  /** What an attempt spent that is lost was not lost by the policy. */
  beginAnew(): void {
    this.#ownMs = 0;
  }

  /** Heard once; a later attempt's sandbox starts nothing anew. */
  start(now: number): void {
    this.#begun ??= now;
  }

  /** Time that was none of its own. */
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

  /** What the deadline means, now that it has passed in `phase`: there must be a sandbox to take something out of. */
  passed({ phase }: LoopState): Extract<LoopEvent, { type: 'failed' | 'out-of-time' }> {
    const isOwn = this.#ownMs >= OWN_SHARE * this.#deadlineSeconds * 1000;
    if (isOwn && this.#atDeadline === 'grade' && (phase === 'generate' || phase === 'act'))
      return { type: 'out-of-time' };
    const own = `${Math.round(this.#ownMs / 1000)} s of them by the policy itself`;
    return {
      type: 'failed',
      failure: 'deadline',
      message: `agent.deadlineSeconds: ${this.#deadlineSeconds} s were spent on its turns, ${own}`,
    };
  }
}
