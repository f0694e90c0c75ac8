/**
 * When a lease has run out: by the time since the machine's boot, which nobody sets, where the lease says that; else by
 * the clock. A clock that jumps, because it was set or because a machine was resumed, ends nothing that is held.
 */

import { readFileSync } from 'node:fs';

import type { Lease } from '../store/store.ts';

export interface BootTime {
  /** Milliseconds, the same in every process of the machine. */
  readonly now: () => number;
  /** Names this boot; `undefined` where the machine does not tell. */
  readonly boot: string | undefined;
}

function readBoot(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}

/** By which the supervisors count their sandboxes' time to live, too. */
export const machineTime: BootTime = { now: () => Number(process.hrtime.bigint() / 1_000_000n), boot: readBoot() };

/** What a lease says of its end that is taken or renewed now, on this machine. */
export function leaseUntil(ttlSeconds: number, { now, boot }: BootTime): Pick<Lease, 'expiresAt' | 'detail'> {
  const ttlMs = ttlSeconds * 1000;
  return {
    expiresAt: Date.now() + ttlMs,
    detail: boot === undefined ? '' : `until ${Math.ceil(now() + ttlMs)} ms after boot ${boot}`,
  };
}

/** Milliseconds; `now`: since the epoch, for leases of an earlier boot, of whose sandboxes none is left, and those that tell no more. */
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
