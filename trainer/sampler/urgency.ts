/**
 * The order in which requests are served. A request is due `PATIENCE_MS` after its arrival for each step of its
 * priority, and the request that is due first is served first. So of two requests that arrive together the more urgent
 * one is first, and requests of one priority keep their order of arrival. No request starves: only requests that arrive
 * within `PATIENCE_MS` for each step between the two priorities overtake it. The order of two requests never changes.
 */

/** The default among Temporal's priority keys, 1 (first) to 5; training has it. */
export const ORDINARY = 3;

/** An evaluation's request (4) waits for training's (3) that arrive in its first two minutes, and for no later ones. */
export const PATIENCE_MS = 120_000;

export interface Due {
  /** In milliseconds, by the clock of `arrived`. */
  readonly due: number;
}

export function dueAt(arrived: number, priority = ORDINARY, patienceMs = PATIENCE_MS): number {
  return arrived + priority * patienceMs;
}

/** Sorted by `due`, the earliest first; equal ones keep their order. */
export function inOrder<T extends Due>(all: readonly T[]): T[] {
  return all.toSorted((a, b) => a.due - b.due);
}
