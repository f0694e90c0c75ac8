/**
 * Decides whether a lease has run out: by the time since the machine's boot if the lease records it, else by the clock.
 * A clock that jumps (it was set, or the machine was suspended) therefore ends no lease that is still held.
 */

import { readFileSync } from 'node:fs';

import type { Lease } from '../store/store.ts';

export interface BootTime {
  /** Milliseconds since boot, equal in every process of the machine. */
  readonly now: () => number;
  /** Id of this boot; `undefined` if the machine has none. */
  readonly boot: string | undefined;
}

function readBoot(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

/** The clock of this machine. Supervisors use it too, for their sandboxes' time to live. */
export const machineTime: BootTime = { now: () => Number(process.hrtime.bigint() / 1_000_000n), boot: readBoot() };

/** The fields that record the end of a lease that is taken or renewed now, on this machine. */
export function leaseUntil(ttlSeconds: number, { now, boot }: BootTime): Pick<Lease, 'expiresAt' | 'detail'> {
  const ttlMs = ttlSeconds * 1000;
  return {
    expiresAt: Date.now() + ttlMs,
    detail: boot === undefined ? '' : `until ${Math.ceil(now() + ttlMs)} ms after boot ${boot}`,
  };
}

/**
 * Remaining milliseconds. `now` (milliseconds since the epoch) is used for leases of an earlier boot, whose sandboxes
 * are all gone, and for leases that record no boot.
 */
export function leftMs(
  { expiresAt, detail }: Pick<Lease, 'expiresAt' | 'detail'>,
  now: number,
  time: BootTime = machineTime,
): number {
  const [, until, boot] = /^until (-?\d+) ms after boot (\S+)$/u.exec(detail) ?? [];
  return boot !== undefined && boot === time.boot ? Number(until) - time.now() : expiresAt - now;
}

/** `now`: as for `leftMs`. */
export function hasRunOut(
  lease: Pick<Lease, 'expiresAt' | 'detail'>,
  now: number,
  time: BootTime = machineTime,
): boolean {
  return leftMs(lease, now, time) <= 0;
}
