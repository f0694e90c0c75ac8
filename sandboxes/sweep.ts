/**
 * The sweeper: ends the sandboxes that a killed worker left behind. It ends a sandbox with a live lease only if its
 * owner is known to have ended. It leaves a sandbox without a lease to its own time to live, and removes only its
 * remains.
 */

import type { Lease, Store } from '../store/store.ts';
import { keepWaiting, type KeepOptions } from './keep-waiting.ts';
import { type BootTime, hasRunOut, machineTime } from './lease-time.ts';
import { GRADER_LEASE, SANDBOX_LEASE, WARM_LEASE } from './leases.ts';
import type { SandboxProvider } from './sandbox.ts';

const DEFAULT_INTERVAL_MS = 15_000;
/** Kinds of leases whose owner is a rollout. */
const OWNED: readonly string[] = [SANDBOX_LEASE, GRADER_LEASE];
const SWEPT: readonly string[] = [...OWNED, WARM_LEASE];

export interface SweepOptions {
  readonly store: Store;
  readonly provider: SandboxProvider;
  /** This host, as its leases name it. */
  readonly host: string;
  /** True if the owner of a lease (a rollout) may still act. Also true if the owner is unknown or cannot be queried. */
  readonly ownerLives?: (owner: string) => Promise<boolean>;
  /** Default: the machine's clock since boot. */
  readonly time?: BootTime;
  /** Milliseconds between two sweeps. */
  readonly intervalMs?: number;
  /** Receives the error of each sandbox that could not be swept. The next round retries it. */
  readonly onError?: (error: unknown) => void;
}

/** Settings for the sandboxes that a sweeper renews, beside those that it ends. */
export type Kept = Pick<KeepOptions, 'ownerWaits' | 'ttlSeconds'>;

export interface Sweeper {
  /** Returns when no sweep runs. */
  stop(): Promise<void>;
}

/**
 * The sandboxes to end, given all leases: those of this host whose lease ran out, and ended ones without a live lease.
 */
export function toSweep(
  leases: readonly Lease[],
  host: string,
  ended: readonly string[],
  now: number,
  time: BootTime = machineTime,
): string[] {
  const own = leases.filter((lease) => lease.host === host && SWEPT.includes(lease.kind));
  const expired = own.filter((lease) => hasRunOut(lease, now, time)).map((lease) => lease.id);
  const live = new Set(own.filter((lease) => !hasRunOut(lease, now, time)).map((lease) => lease.id));
  return [...new Set([...expired, ...ended.filter((id) => !live.has(id))])];
}

const leasesOf = async (store: Store, kinds = SWEPT): Promise<Lease[]> =>
  (await Promise.all(kinds.map((kind) => store.leases(kind)))).flat();

/** Owners that are queried concurrently. */
const ASKED_AT_ONCE = 16;

/** This host's sandboxes whose owner ended without releasing them, for example by a termination: id -> owner. */
async function abandoned({ store, host, ownerLives }: SweepOptions): Promise<Map<string, string>> {
  const dead = new Map<string, string>();
  if (ownerLives === undefined) return dead;
  const held = (await leasesOf(store, OWNED)).filter((lease) => lease.host === host);
  for (let from = 0; from < held.length; from += ASKED_AT_ONCE) {
    const some = held.slice(from, from + ASKED_AT_ONCE);
    const lives = await Promise.all(some.map(({ owner }) => ownerLives(owner)));
    for (const [i, { id, owner }] of some.entries()) if (lives[i] === false) dead.set(id, owner);
  }
  return dead;
}

/**
 * Sandboxes that the provider reports as ended. An error is passed to `onError`, and the sweep continues without them.
 */
async function endedOf({ provider, onError }: SweepOptions): Promise<readonly string[]> {
  try {
    return (await provider.ended?.()) ?? [];
  } catch (error) {
    onError?.(error);
    return [];
  }
}

/** Runs one round. Returns the ids of the sandboxes that it ended. */
export async function sweepOnce(options: SweepOptions): Promise<string[]> {
  const { store, provider, host, onError, time = machineTime } = options;
  const ended = await endedOf(options);
  const dead = await abandoned(options);
  const swept: string[] = [];
  for (const id of new Set([...dead.keys(), ...toSweep(await leasesOf(store), host, ended, Date.now(), time)])) {
    try {
      // It may have been renewed or taken since, or its owner may have been started again under the same id.
      const again = toSweep(await leasesOf(store), host, ended, Date.now(), time);
      const owner = dead.get(id);
      const stillDead = owner !== undefined && (await options.ownerLives?.(owner)) === false;
      if (!stillDead && !again.includes(id)) continue;
      await provider.destroy(id);
      await store.releaseLease(id);
      swept.push(id);
    } catch (error) {
      onError?.(error);
    }
  }
  return swept;
}

/** Short enough that a sandbox with a short time to live has several rounds before half of that time has passed. */
const intervalOf = ({ intervalMs }: SweepOptions, kept: Kept | undefined): number =>
  intervalMs ??
  Math.min(DEFAULT_INTERVAL_MS, Math.max(1000, ((kept?.ttlSeconds ?? Number.POSITIVE_INFINITY) * 1000) / 8));

/** Sweeps at once, then every `intervalMs`. With `kept` it also renews the sandboxes of owners that wait. */
export function startSweeper(options: SweepOptions, kept?: Kept): Sweeper {
  let running: Promise<unknown> = Promise.resolve();
  let busy = false;
  const round = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    try {
      await sweepOnce(options);
      if (kept) await keepWaiting({ ...options, ...kept });
    } catch (error) {
      options.onError?.(error);
    } finally {
      busy = false;
    }
  };
  running = round();
  const timer = setInterval(
    () => {
      if (!busy) running = round();
    },
    intervalOf(options, kept),
  );
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}
