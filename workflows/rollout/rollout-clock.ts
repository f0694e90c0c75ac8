/**
 * How long a rollout has spent on its turns, over all of its histories: from its first sandbox on, without the time in
 * which it waited or that machines took; and how much of this the policy itself used. Pure: callers pass the time.
 */

import { OUTAGE_SECONDS } from '../../protocol/failure-policy.ts';
import type { AgentSettings } from '../../protocol/rollout.ts';
import type { LoopEvent, LoopState } from './rollout-loop.ts';

/** If the policy itself used this share of the deadline for sampling and tools, it caused the deadline to pass. */
const OWN_SHARE = 1 / 2;

/** Over all of a rollout's histories. */
export interface Spent {
  /** `null`: it had no sandbox yet. */
  readonly spentMs: number | null;
  /** Absent: 0. */
  readonly ownMs?: number;
}

export class RolloutClock {
  readonly #deadlineSeconds: number;
  readonly #atDeadline: Required<AgentSettings>['atDeadline'];
  /** Its start in milliseconds, moved later by all time that does not count; `null` before its first sandbox. */
  #begun: number | null;
  /** The policy's own time in the current attempt. */
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

  /**
   * Adds a turn. `ms`: the policy's own time, as engine and sandbox report it. `lostMs`: other time, taken by machines.
   */
  addTurn({ ms = 0, lostMs = 0 }: { readonly ms?: number; readonly lostMs?: number }): void {
    this.#ownMs += ms;
    this.exclude(lostMs);
  }

  /** A new attempt starts: the policy's time in the lost attempt does not count against it. */
  restart(): void {
    this.#ownMs = 0;
  }

  /** Starts the clock at the first sandbox; a later attempt's sandbox does not restart it. */
  start(now: number): void {
    this.#begun ??= now;
  }

  /** Subtracts time that is not the rollout's own. */
  exclude(ms: number): void {
    if (this.#begun !== null) this.#begun += ms;
  }

  spentMs(now: number): number | null {
    return this.#begun === null ? null : now - this.#begun;
  }

  /** Remaining milliseconds. Before its first sandbox the rollout waits for room, and that time does not count. */
  leftMs(now: number): number {
    const spent = this.spentMs(now);
    return spent === null ? OUTAGE_SECONDS * 1000 : Math.ceil(this.#deadlineSeconds * 1000 - spent);
  }

  /**
   * The event for a deadline that passed in `phase`. Grading is possible only if there is a sandbox to collect from.
   */
  passed({ phase }: LoopState): Extract<LoopEvent, { type: 'failed' | 'out-of-time' }> {
    const isOwn = this.#ownMs >= OWN_SHARE * this.#deadlineSeconds * 1000;
    if (isOwn && this.#atDeadline === 'grade' && (phase === 'generate' || phase === 'act' || phase === 'wait'))
      return { type: 'out-of-time' };
    const own = `${Math.round(this.#ownMs / 1000)} s of them by the policy itself`;
    return {
      type: 'failed',
      failure: 'deadline',
      message: `agent.deadlineSeconds: ${this.#deadlineSeconds} s were spent on its turns, ${own}`,
    };
  }
}
