/** How long to wait before a process that died is started again: a pure function of how it has fared. */

const DELAYS_MS = [100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000] as const;

/** A process that lived so long died of something new, so its past failures no longer count. */
export const STABLE_MS = 60_000;

/** `quickDeaths`: how many times in a row it died within `STABLE_MS`, this death included. */
export function restartDelayMs(quickDeaths: number): number {
  const index = Math.min(Math.max(quickDeaths, 1), DELAYS_MS.length) - 1;
  return DELAYS_MS[index] ?? 30_000;
}

export function nextQuickDeaths(quickDeaths: number, livedMs: number): number {
  return livedMs >= STABLE_MS ? 1 : quickDeaths + 1;
}
