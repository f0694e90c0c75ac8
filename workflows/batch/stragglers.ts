/**
 * Which rollouts a batch no longer waits for: by default none. A rollout that was graded in time is never given up. One
 * that is given up is masked with its reason, and has no reward.
 */

import { LONGEST_SECONDS } from '../../protocol/limits.ts';
import type { StragglerSettings } from '../../protocol/batch.ts';
import type { GroupTally } from './ledger.ts';

/** `deadline`: the batch's time was over. `straggler`: the group was complete without this one. */
export type GivenUpReason = 'deadline' | 'straggler';

export const GIVEN_UP: Readonly<Record<GivenUpReason, string>> = {
  deadline: "The batch's deadline passed before this rollout had ended",
  straggler: 'The group was complete without this rollout',
};

/** True if the last end made a group of `samples` complete, by its tally: true only once per group. */
export function isCompleteWithoutRest(
  { graded, ended }: GroupTally,
  samples: number,
  { completeGroupWithout = 0 }: StragglerSettings,
): boolean {
  return completeGroupWithout > 0 && ended < samples && graded === samples - completeGroupWithout;
}

/** The first setting that cannot be used; `undefined` if there is none. A baseline needs two members. */
export function refusedStraggler({ deadlineSeconds, completeGroupWithout }: StragglerSettings, samples: number) {
  if (deadlineSeconds !== undefined && !(deadlineSeconds > 0 && deadlineSeconds <= LONGEST_SECONDS)) {
    return {
      field: 'deadlineSeconds',
      value: deadlineSeconds,
      remedy: `give seconds above 0, at most ${LONGEST_SECONDS}`,
    };
  }
  const most = Math.max(0, samples - 2);
  const fits =
    completeGroupWithout === undefined ||
    (Number.isSafeInteger(completeGroupWithout) && completeGroupWithout >= 0 && completeGroupWithout <= most);
  return fits
    ? undefined
    : {
        field: 'completeGroupWithout',
        value: completeGroupWithout,
        remedy: `give a whole number up to ${most}: two of a group's ${samples} must remain`,
      };
}

/** The remaining time until a deadline, by a clock that can be stopped. */
export class Countdown {
  #leftMs: number;
  #since: number | null = null;

  constructor(leftMs: number) {
    this.#leftMs = leftMs;
  }

  start(nowMs: number): void {
    this.#since ??= nowMs;
  }

  stop(nowMs: number): void {
    this.#leftMs = this.leftMs(nowMs);
    this.#since = null;
  }

  leftMs(nowMs: number): number {
    return Math.max(0, this.#leftMs - (this.#since === null ? 0 : nowMs - this.#since));
  }
}

/** `leftMs`: carried over from an earlier history. Returns `null` if there is no deadline. */
export function countdownOf({ deadlineSeconds }: StragglerSettings = {}, leftMs?: number): Countdown | null {
  return deadlineSeconds === undefined ? null : new Countdown(leftMs ?? deadlineSeconds * 1000);
}
