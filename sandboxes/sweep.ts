/**
 * The sweeper: ends the sandboxes that a killed worker left behind. A sandbox with a live lease is never touched, and
 * one without a lease (a grader's) is left to its own time to live; only what remains of it is cleared away.
 */

import type { Lease, Store } from '../store/store.ts';
import { SANDBOX_LEASE } from './leases.ts';
import type { SandboxProvider } from './sandbox.ts';

const DEFAULT_INTERVAL_MS = 15_000;

export interface SweepOptions {
  readonly store: Store;
  readonly provider: SandboxProvider;
  /** This host, as its leases name it. */
  readonly host: string;
  /** Milliseconds between two sweeps. */
  readonly intervalMs?: number;
  /** Hears what could not be swept; it is tried again in the next round. */
  readonly onError?: (error: unknown) => void;
}

export interface Sweeper {
  /** Returns when the sweep under way, if any, is over. */
  stop(): Promise<void>;
}

/** Which sandboxes to end, given all leases: those of this host whose lease ran out, and the remains of others. */
export function toSweep(leases: readonly Lease[], host: string, ended: readonly string[], now: number): string[] {
  const own = leases.filter((lease) => lease.kind === SANDBOX_LEASE && lease.host === host);
  const expired = own.filter((lease) => lease.expiresAt <= now).map((lease) => lease.id);
  const live = new Set(own.filter((lease) => lease.expiresAt > now).map((lease) => lease.id));
  return [...new Set([...expired, ...ended.filter((id) => !live.has(id))])];
}

/** One round; returns the ids that it ended. */
export async function sweepOnce(options: SweepOptions): Promise<string[]> {
  const { store, provider, host, onError } = options;
  const ended = (await provider.ended?.()) ?? [];
  const swept: string[] = [];
  for (const id of toSweep(await store.leases(SANDBOX_LEASE), host, ended, Date.now())) {
    try {
      // Somebody may have renewed or taken it since.
      const again = toSweep(await store.leases(SANDBOX_LEASE), host, ended, Date.now());
      if (!again.includes(id)) continue;
      await provider.destroy(id);
      await store.releaseLease(id);
      swept.push(id);
    } catch (error) {
      onError?.(error);
    }
  }
  return swept;
}

/** Sweeps at once, and then every `intervalMs`. */
export function startSweeper(options: SweepOptions): Sweeper {
  let running: Promise<unknown> = Promise.resolve();
  let busy = false;
  const round = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    try {
      await sweepOnce(options);
    } catch (error) {
      options.onError?.(error);
    } finally {
      busy = false;
    }
  };
  running = round();
  const timer = setInterval(() => {
    if (!busy) running = round();
  }, options.intervalMs ?? DEFAULT_INTERVAL_MS);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}
