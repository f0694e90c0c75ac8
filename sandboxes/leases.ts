/**
 * Leases on live sandboxes, in the store: the one authority on how many a host holds and on which are still wanted.
 * A lease and its sandbox's own time to live are pushed forward together, so neither outlives the other for long.
 */

import type { Lease, Store } from '../store/store.ts';
import { type BootTime, leaseUntil, machineTime } from './lease-time.ts';
import type { Sandbox } from './sandbox.ts';

export const SANDBOX_LEASE = 'sandbox';
/** Of a sandbox that stands ready and that nobody uses yet; it does not count as one that is held. */
export const WARM_LEASE = 'warm-sandbox';
/** Of a sandbox that grades: it takes no place of those that agents act in. */
export const GRADER_LEASE = 'grader-sandbox';

export interface SandboxLeases {
  /** Takes or renews the lease; `undefined` when the host holds as many live sandboxes as it may. */
  acquire(id: string, owner: string, ttlSeconds: number): Promise<Lease | undefined>;
  /** Renews the lease and the sandbox's own time to live. */
  renew(sandbox: Sandbox, owner: string, ttlSeconds: number): Promise<void>;
  /** Call it when the sandbox is destroyed, not before. */
  release(id: string): Promise<void>;
}

/** The leases of one host; `limit` is how many sandboxes of this kind it may hold at once. */
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

/** Calls `renew` several times per time to live. What it returns ends that at once, and resolves when no renewal is under way. */
export function renewing(ttlSeconds: number, renew: () => Promise<void>): () => Promise<void> {
  let last = Promise.resolve();
  // A renewal that fails is told by the calls themselves, or made good by the next one.
  const renewSoon = () => {
    last = last.then(renew).catch(() => undefined);
  };
  const timer = setInterval(renewSoon, (ttlSeconds * 1000) / RENEWALS_PER_TTL);
  return async () => {
    clearInterval(timer);
    await last;
  };
}

/** Keeps a sandbox and its lease alive for as long as `body` takes. */
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
