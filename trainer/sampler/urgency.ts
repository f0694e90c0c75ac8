/**
 * In which order requests are served: each is due `PATIENCE_MS` after it came for each step of its priority, and what is
 * due first goes first. So of two that came together the more urgent goes first, two of one priority go as they came,
 * and nothing starves: a request is overtaken by those alone that come within `PATIENCE_MS` for each step between the
 * two. The order of two requests never changes.
 */

/** Of the 1 (first) to 5 of Temporal's keys: what nothing was said about, such as training. */
export const ORDINARY = 3;

/** An evaluation's request (4) waits for those of training (3) that come in its first two minutes, and for none that come later. */
export const PATIENCE_MS = 120_000;

export interface Due {
  /** Milliseconds, of the clock of `arrived`. */
  readonly due: number;
}

export function dueAt(arrived: number, priority = ORDINARY, patienceMs = PATIENCE_MS): number {
  return arrived + priority * patienceMs;
}

/** What is due first in front; of equals, who was there first. */
export function inOrder<T extends Due>(all: readonly T[]): T[] {
  return all.toSorted((a, b) => a.due - b.due);
}
