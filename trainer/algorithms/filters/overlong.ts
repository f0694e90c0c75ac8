/** Overlong filtering: what did not stop by itself is not learnt from (DAPO: Yu et al. 2025, §3.4). */

/** The masks, all 0 where the reason is not `stop`. */
export function filterOverlong(masks: ReadonlyArray<readonly number[]>, stopReasons: readonly string[]): number[][] {
  return masks.map((mask, row) => (stopReasons[row] === 'stop' ? [...mask] : mask.map(() => 0)));
}
