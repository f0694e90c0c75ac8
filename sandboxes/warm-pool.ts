/**
 * A warm pool: sandboxes that are ready before they are requested. Each is used once, by the process that takes its
 * record first, and is destroyed like any other. Leases in the store list the warm ones, so several processes share one
 * pool.
 */

import { createHash, randomUUID } from 'node:crypto';

import type { Lease, Store } from '../store/store.ts';
import { WARM_LEASE } from './leases.ts';
import { type Sandbox, SandboxLost, type SandboxProvider, type SandboxSpec } from './sandbox.ts';
import type { HostProvider, SandboxShape } from './supervised/provider.ts';

const TTL_SECONDS = 120;
const KEEP_EVERY_MS = (TTL_SECONDS * 1000) / 4;

export interface WarmPoolOptions {
  readonly store: Store;
  readonly provider: HostProvider;
  /** This host, as its leases name it. */
  readonly host: string;
  /**
   * Number of sandboxes to keep ready, in the shape that was requested last. 0: only takes what other processes keep
   * warm.
   */
  readonly size: number;
  readonly onError?: (error: unknown) => void;
}

export interface WarmPool extends SandboxProvider {
  /** Fills the pool with sandboxes of this shape. Returns when it is full. */
  fill(shape: SandboxShape): Promise<void>;
  /** Returns when no filling runs. Warm sandboxes end by their time to live, or another process takes them. */
  stop(): Promise<void>;
}

const shapeOf = ({ workdir, limits, image, build, folders, profile, cpus }: SandboxSpec): SandboxShape => ({
  workdir,
  limits,
  ...(image === undefined ? {} : { image }),
  ...(build === undefined ? {} : { build }),
  ...(folders === undefined ? {} : { folders }),
  ...(profile === undefined ? {} : { profile }),
  ...(cpus === undefined ? {} : { cpus }),
});

const keyOf = (provider: string, { workdir, limits, image, folders, profile, cpus }: SandboxShape): string => {
  const fields = [provider, workdir, limits.memoryMiB, limits.processes, limits.diskMiB, image, profile, cpus, folders];
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex').slice(0, 16);
};

class Pool implements WarmPool {
  readonly name: string;
  private readonly options: WarmPoolOptions;
  private filling: Promise<void> = Promise.resolve();
  private isFilling = false;
  private wanted: SandboxShape | undefined;
  private readonly timer: NodeJS.Timeout;
  private stopped = false;

  constructor(options: WarmPoolOptions) {
    this.name = options.provider.name;
    this.options = options;
    this.timer = setInterval(() => {
      // A store that is down must not end the worker: the next round retries.
      void this.keep().catch((error: unknown) => this.options.onError?.(error));
    }, KEEP_EVERY_MS);
    this.timer.unref();
  }

  async create(spec: SandboxSpec): Promise<Sandbox> {
    const shape = shapeOf(spec);
    // A network is joined, and a folder of tools mounted, when a sandbox starts.
    if (spec.network !== undefined || spec.toolsFolder !== undefined) return this.options.provider.create(spec);
    const taken = await this.takeOne(keyOf(this.name, shape), spec);
    const made = taken ?? (await this.options.provider.create(spec));
    // After this sandbox is made, so that it does not wait for the ones that fill the pool.
    void this.fill(shape).catch((error: unknown) => this.options.onError?.(error));
    return made;
  }

  prepare = async (spec: SandboxSpec, onLine: (line: string) => void): Promise<void> =>
    await this.options.provider.prepare?.(spec, onLine);
  connect = (id: string): Promise<Sandbox> => this.options.provider.connect(id);
  destroy = (id: string): Promise<void> => this.options.provider.destroy(id);
  list = (): Promise<string[]> => this.options.provider.list();
  ended = (): Promise<string[]> => this.options.provider.ended();

  async fill(shape: SandboxShape): Promise<void> {
    this.wanted = shape;
    if (!this.isFilling && this.options.size > 0 && !this.stopped) {
      this.isFilling = true;
      this.filling = this.fillUp().finally(() => {
        this.isFilling = false;
      });
    }
    await this.filling;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearInterval(this.timer);
    await this.filling.catch(() => undefined);
  }

  private async fillUp(): Promise<void> {
    while (!this.stopped && this.wanted !== undefined) {
      const shape = this.wanted;
      const id = `warm/${randomUUID()}`;
      if ((await this.lease(id, 'being made', this.options.size)) === undefined) return;
      try {
        await this.options.provider.warm(id, shape, TTL_SECONDS);
        await this.lease(id, keyOf(this.name, shape));
      } catch (error) {
        await this.options.store.releaseLease(id);
        throw error;
      }
    }
  }

  private async lease(id: string, detail: string, limit = Number.MAX_SAFE_INTEGER): Promise<Lease | undefined> {
    const { store, host } = this.options;
    const expiresAt = Date.now() + TTL_SECONDS * 1000;
    return await store.acquireLease({ id, kind: WARM_LEASE, owner: 'pool', host, expiresAt, detail }, limit);
  }

  private async ready(): Promise<Lease[]> {
    const { store, host } = this.options;
    return (await store.leases(WARM_LEASE)).filter((lease) => lease.host === host && lease.expiresAt > Date.now());
  }

  private async takeOne(key: string, spec: SandboxSpec): Promise<Sandbox | undefined> {
    for (const { id } of (await this.ready()).filter(({ detail }) => detail === key)) {
      const taken = await this.options.provider.take(id, spec);
      if (taken === undefined) continue;
      await this.options.store.releaseLease(id);
      return taken;
    }
    return undefined;
  }

  /** Renews the warm sandboxes of the wanted shape; the others end by their time to live. */
  private async keep(): Promise<void> {
    const key = this.wanted === undefined ? undefined : keyOf(this.name, this.wanted);
    for (const { id, detail } of await this.ready())
      if (detail === key && this.options.size > 0)
        try {
          await this.options.provider.keepWarm(id, TTL_SECONDS);
          await this.lease(id, detail);
        } catch (error) {
          await this.options.store.releaseLease(id);
          // If it is lost, another process has probably taken it.
          if (!(error instanceof SandboxLost)) this.options.onError?.(error);
        }
  }
}

export function openWarmPool(options: WarmPoolOptions): WarmPool {
  return new Pool(options);
}
