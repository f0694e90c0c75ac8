/** What concerns many rollouts is done for so many of them at a time. Pure. */

/** Children being started, signalled or cancelled at once: far below Temporal's limits on what is pending, on commands and on bytes. */
export const CHUNK = 100;

export function chunksOf<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / CHUNK) }, (_, i) => all.slice(i * CHUNK, (i + 1) * CHUNK));
}
