/** Times as Temporal's API gives them. */

export type Timestamp =
  | { readonly seconds?: { toString(): string } | null; readonly nanos?: number | null }
  | null
  | undefined;

/** Milliseconds since the epoch. */
export const millis = (at: Timestamp): number =>
  Number(at?.seconds?.toString() ?? 0) * 1000 + Math.floor((at?.nanos ?? 0) / 1e6);
