/**
 * Leases on live sandboxes, in the store. They alone decide how many sandboxes a host holds, how much of its memory
 * these claim, and which are still wanted. A lease and its sandbox's time to live are renewed together, so neither
 * outlives the other for long.
 */

import type { Lease, LeaseRoom, Store } from '../store/store.ts';
import { type BootTime, leaseUntil, machineTime } from './lease-time.ts';
import type { Sandbox, SandboxSpec } from './sandbox.ts';

export const SANDBOX_LEASE = 'sandbox';
/** Kind of lease for a warm sandbox that nobody uses yet. It does not count against the host's limit. */
export const WARM_LEASE = 'warm-sandbox';
/** Kind of lease for a sandbox that grades. It does not count against the limit for agents' sandboxes. */
export const GRADER_LEASE = 'grader-sandbox';

/** Memory of a sandbox's supervisor and of its place in the kernel. */
const OWN_MIB = 16;

/** The most memory that a sandbox takes: its files are in memory, unless its image is writable. */
export function memoryOf({
  limits,
  profile,
}: Pick<SandboxSpec, 'profile'> & { readonly limits: Pick<SandboxSpec['limits'], 'memoryMiB' | 'diskMiB'> }): number {
  return limits.memoryMiB + (profile === 'swe' ? 0 : limits.diskMiB) + OWN_MIB;
}

/**
 * Takes or renews the leases of these sandboxes, all or none. Returns false if the host has no room for all of them.
 */
export async function acquireAll(
  specs: readonly SandboxSpec[],
  owner: string,
  place: { readonly store: Pick<Store, 'acquireLeases'>; readonly host: string; readonly room: LeaseRoom },
  time: BootTime = machineTime,
): Promise<boolean> {
  const leases = specs.map((spec) => ({
    id: spec.id,
    kind: SANDBOX_LEASE,
    owner,
    host: place.host,
    ...leaseUntil(spec.ttlSeconds, time),
    memoryMiB: memoryOf(spec),
  }));
  return place.store.acquireLeases(leases, place.room);
}

export interface SandboxLeases {
  /** Takes or renews the lease. Returns `undefined` if the host already holds as many live sandboxes as allowed. */
  acquire(id: string, owner: string, ttlSeconds: number): Promise<Lease | undefined>;
  /** Renews the lease and the sandbox's own time to live. */
  renew(sandbox: Sandbox, owner: string, ttlSeconds: number): Promise<void>;
  /** Call it after the sandbox was destroyed, not before. */
  release(id: string): Promise<void>;
}

/** The leases of one host. `limit`: sandboxes of this kind that it may hold at once. */
export function sandboxLeases(
  store: Store,
  host: string,
  limit: number,
  kind: string = SANDBOX_LEASE,
  time: BootTime = machineTime,
): SandboxLeases {
  const acquire = async (id: string, owner: string, ttlSeconds: number): Promise<Lease | undefined> => {
    return await store.acquireLease({ id, kind, owner, host, ...leaseUntil(ttlSeconds, time) }, limit);
  };
  return {
    acquire,
    async renew(sandbox, owner, ttlSeconds) {
      await acquire(sandbox.id, owner, ttlSeconds);
      await sandbox.renew(ttlSeconds);
    },
    async release(id) {
      await store.releaseLease(id);
    },
  };
}

const RENEWALS_PER_TTL = 4;

/**
 * Calls `renew` several times per time to live. Returns a function that stops this; it resolves when no renewal is in
 * flight.
 */
export function renewing(ttlSeconds: number, renew: () => Promise<void>): () => Promise<void> {
  let last = Promise.resolve();
  // A failed renewal is not reported here: the next one may succeed, and otherwise the calls themselves fail.
  const renewSoon = () => {
    last = last.then(renew).catch(() => undefined);
  };
  const timer = setInterval(renewSoon, (ttlSeconds * 1000) / RENEWALS_PER_TTL);
  return async () => {
    clearInterval(timer);
    await last;
  };
}

/** Keeps a sandbox and its lease alive while `body` runs. */
export async function keptAlive<T>(
  leases: SandboxLeases,
  sandbox: Sandbox,
  owner: string,
  ttlSeconds: number,
  body: () => Promise<T>,
): Promise<T> {
  const renew = () => leases.renew(sandbox, owner, ttlSeconds);
  const end = renewing(ttlSeconds, renew);
  try {
    await renew();
    return await body();
  } finally {
    await end();
  }
}
