/** Adapters of several bases in this thread. A base is in memory once, while it has adapters or no other is wanted. */

import { type AdapterAnswer, type AdapterCall, callAdapters } from './adapter-calls.ts';
import { loadTenantBase, type TenantBase } from './tenant-base.ts';
import { TenantAdapters } from './tenant-adapters.ts';

interface Loaded {
  readonly base: TenantBase;
  readonly adapters: TenantAdapters;
}

async function load(dir: string): Promise<Loaded> {
  const base = await loadTenantBase(dir);
  return { base, adapters: new TenantAdapters(base) };
}

export class TenantBases {
  readonly #loaded = new Map<string, Loaded>();

  /**
   * Calls the trainer of the base in `dir`, one call at a time. Before a base is read, those without adapters are
   * freed. `signal` stops a pass. Errors: those of the call, and of `loadTenantBase`.
   */
  async call(dir: string, given: AdapterCall, signal?: AbortSignal): Promise<AdapterAnswer> {
    const known = this.#loaded.get(dir);
    if (known !== undefined) return callAdapters(known.adapters, given, signal);
    if (given.method === 'drop') return undefined;
    for (const [other, { base, adapters }] of this.#loaded) {
      if (adapters.size > 0) continue;
      this.#loaded.delete(other);
      base.dispose();
    }
    const loaded = await load(dir);
    this.#loaded.set(dir, loaded);
    return callAdapters(loaded.adapters, given, signal);
  }

  /** Frees everything. */
  dispose(): void {
    for (const { base, adapters } of this.#loaded.values()) {
      adapters.dispose();
      base.dispose();
    }
    this.#loaded.clear();
  }
}
