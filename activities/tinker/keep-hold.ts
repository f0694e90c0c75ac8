/** Holds a lane while work runs, and ends that work when another execution has taken the lane. */

import type { LaneHold, TinkerWork } from '../../store/tinker/work.ts';
import { LaneLost } from '../../store/tinker/work.ts';
import type { DrainLimits } from './limits.ts';

export interface HoldDeps {
  readonly journal: TinkerWork;
  readonly limits: DrainLimits;
  /** Names this process. */
  readonly owner: string;
}

/** Takes the lane, and runs `work` until it ends. The signal fires if `signal` does, or if the lane is lost. */
export async function withLane<T>(
  lane: string,
  { journal, limits, owner }: HoldDeps,
  signal: AbortSignal,
  work: (hold: LaneHold, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const hold = await journal.take(lane, owner, limits.holdMs);
  const lost = new AbortController();
  const renew = () =>
    void journal.renew(hold, limits.holdMs).catch((error: unknown) => {
      // A disk that cannot be written to is waited for elsewhere.
      if (error instanceof LaneLost) lost.abort(error);
    });
  const timer = setInterval(renew, limits.renewMs);
  try {
    return await work(hold, AbortSignal.any([signal, lost.signal]));
  } finally {
    clearInterval(timer);
    // The server that accepts work next wakes the lane. A hold that was lost is another's.
    await journal.release(hold).catch(() => undefined);
  }
}
