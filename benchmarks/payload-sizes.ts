/** Sizes of what a history carries, as the server keeps it. */

function payloadBytes(value: unknown): number[] {
  if (value instanceof Uint8Array) return [value.length];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(payloadBytes);
}

/** Bytes of the largest single payload in any of its events; 0 without one. */
export function largestPayload({ events }: { readonly events?: unknown }): number {
  return Math.max(0, ...payloadBytes(events));
}
