/**
 * Keeps alive the sandboxes of owners that wait, for example for a turn that no worker samples. Each is renewed before
 * its time to live ends. A sandbox is never renewed unless its owner reports that it waits.
 */

import { mainSandboxOf } from '../protocol/record-keys.ts';
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
  /** True if the owner of a lease (a rollout) waits, and needs its sandbox after the wait. */
  readonly ownerWaits: (owner: string) => Promise<boolean>;
  /** Default: the machine's clock since boot. */
  readonly time?: BootTime;
  /** Receives the error of each sandbox that could not be renewed. The next round retries it. */
  readonly onError?: (error: unknown) => void;
}

const ASKED_AT_ONCE = 16;

/**
 * The leases of each owner's newest sandboxes: the newest one, and those that were made with it. The others belong to
 * sandboxes that could not be released.
 */
function inUse(leases: readonly Lease[]): Lease[] {
  const newest = new Map<string, Lease>();
  for (const lease of leases)
    if (lease.expiresAt > (newest.get(lease.owner)?.expiresAt ?? Number.NEGATIVE_INFINITY))
      newest.set(lease.owner, lease);
  return leases.filter(({ id, owner }) => mainSandboxOf(id) === mainSandboxOf(newest.get(owner)?.id ?? ''));
}

/**
 * Leases with at most half of their time remaining. An owner that acts renews its lease earlier, so it is not queried.
 */
function idle(leases: readonly Lease[], { host, ttlSeconds, time = machineTime }: KeepOptions): Lease[] {
  const isIdle = (left: number) => left > 0 && left <= ttlSeconds * 500;
  return inUse(leases).filter((lease) => lease.host === host && isIdle(leftMs(lease, Date.now(), time)));
}

/** Renews the sandbox, then its lease, unless the lease was released meanwhile: it would occupy a slot for nothing. */
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
    // If the sandbox is lost, its owner notices at its next call.
    if (!(error instanceof SandboxLost)) options.onError?.(error);
  }
}

/** Runs one round. Errors: those of the store. */
export async function keepWaiting(options: KeepOptions): Promise<void> {
  const some = idle(await options.store.leases(SANDBOX_LEASE), options);
  for (let from = 0; from < some.length; from += ASKED_AT_ONCE)
    await Promise.all(some.slice(from, from + ASKED_AT_ONCE).map((lease) => keep(lease, options)));
}
