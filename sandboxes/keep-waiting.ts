/**
 * Keeps the sandboxes that nobody can use meanwhile: one whose owner waits for others, as for a turn that nobody samples,
 * is renewed before its time to live is over, and one whose owner does not say that it waits never is.
 */

import type { Lease, Store } from '../store/store.ts';
import { type BootTime, leftMs, machineTime } from './lease-time.ts';
import { SANDBOX_LEASE, sandboxLeases } from './leases.ts';
import { SandboxLost, type SandboxProvider } from './sandbox.ts';

export interface KeepOptions {
  readonly store: Store;
  readonly provider: SandboxProvider;
  /** This host, as its leases name it. */
  readonly host: string;
  readonly ttlSeconds: number;
  /** Whether the owner of a lease (a rollout) needs its sandbox once that is over for which it waits. */
  readonly ownerWaits: (owner: string) => Promise<boolean>;
  /** Default: the machine's. */
  readonly time?: BootTime;
  /** Hears what could not be renewed; it is tried again in the next round. */
  readonly onError?: (error: unknown) => void;
}

const ASKED_AT_ONCE = 16;

/** Of each owner the one that was used last: an earlier one is what could not be released. */
function inUse(leases: readonly Lease[]): Lease[] {
  const newest = new Map<string, Lease>();
  for (const lease of leases)
    if (lease.expiresAt > (newest.get(lease.owner)?.expiresAt ?? Number.NEGATIVE_INFINITY))
      newest.set(lease.owner, lease);
  return [...newest.values()];
}

/** Half of their time is left at most: whoever acts in its sandbox renews it before that, and is not asked after. */
function idle(leases: readonly Lease[], { host, ttlSeconds, time = machineTime }: KeepOptions): Lease[] {
  const isIdle = (left: number) => left > 0 && left <= ttlSeconds * 500;
  return inUse(leases).filter((lease) => lease.host === host && isIdle(leftMs(lease, Date.now(), time)));
}

/** The sandbox first, and no lease that was released meanwhile: it would hold a place for nothing. */
async function renew({ id, owner }: Lease, { store, provider, host, ttlSeconds, time }: KeepOptions): Promise<void> {
  const sandbox = await provider.connect(id);
  try {
    await sandbox.renew(ttlSeconds);
  } finally {
    sandbox.close();
  }
  if (!(await store.leases(SANDBOX_LEASE)).some((lease) => lease.id === id)) return;
  await sandboxLeases(store, host, Number.MAX_SAFE_INTEGER, SANDBOX_LEASE, time).acquire(id, owner, ttlSeconds);
}

async function keep(lease: Lease, options: KeepOptions): Promise<void> {
  try {
    if (await options.ownerWaits(lease.owner)) await renew(lease, options);
  } catch (error) {
    // Its owner finds that out by its next call.
    if (!(error instanceof SandboxLost)) options.onError?.(error);
  }
}

/** One round. Errors: those of the store. */
export async function keepWaiting(options: KeepOptions): Promise<void> {
  const some = idle(await options.store.leases(SANDBOX_LEASE), options);
  for (let from = 0; from < some.length; from += ASKED_AT_ONCE)
    await Promise.all(some.slice(from, from + ASKED_AT_ONCE).map((lease) => keep(lease, options)));
}
