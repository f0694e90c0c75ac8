/**
 * Adapters that are not merged, packed beside their base, under a budget of memory: those used last. An adapter that a
 * sequence uses stays; one that was dropped is loaded again when it is needed. The one that is loaded next may be in
 * memory above the budget.
 */

import type { DecoderAdapter } from './pass/decoder.ts';

interface Shelved {
  readonly adapter: DecoderAdapter;
  /** Key of its base. */
  readonly base: string;
}

export class AdapterShelf {
  readonly #bytes: number;
  readonly #onUnload: (key: string) => void;
  /** The adapter that was used last is at the end. */
  readonly #shelved = new Map<string, Shelved>();
  #used = 0;
  /** The adapter that had no room last: its files are not read again at every try. */
  #waiting: { readonly key: string; readonly shelved: Shelved } | undefined;

  /** `onUnload` is called with the key of each adapter that leaves the shelf. */
  constructor(bytes: number, onUnload: (key: string) => void) {
    this.#bytes = bytes;
    this.#onUnload = onUnload;
  }

  /**
   * Returns the adapter, loaded first if it is not; `undefined` if those in use leave no room: they must end first. One
   * that is larger than the budget is alone on the shelf. Errors: those of loading.
   */
  async take(
    key: string,
    base: string,
    load: () => Promise<DecoderAdapter>,
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly adapter: DecoderAdapter; readonly loaded: boolean } | undefined> {
    const known = this.#shelved.get(key);
    if (known !== undefined) {
      this.#shelved.delete(key);
      this.#shelved.set(key, known);
      return { adapter: known.adapter, loaded: false };
    }
    if (this.#waiting?.key !== key) {
      this.#forgetWaiting();
      this.#waiting = { key, shelved: { adapter: await load(), base } };
    }
    const { shelved } = this.#waiting;
    if (!this.#makeRoom(shelved.adapter.bytes, inUse)) return undefined;
    this.#waiting = undefined;
    this.#shelved.set(key, shelved);
    this.#used += shelved.adapter.bytes;
    return { adapter: shelved.adapter, loaded: true };
  }

  /** Drops the adapters of a base that is unloaded; none may be in use. */
  dropOf(base: string): void {
    if (this.#waiting?.shelved.base === base) this.#forgetWaiting();
    for (const [key, shelved] of this.#shelved) if (shelved.base === base) this.#drop(key, shelved);
  }

  dispose(): void {
    for (const { adapter } of this.#shelved.values()) adapter.dispose();
    this.#shelved.clear();
    this.#forgetWaiting();
  }

  #forgetWaiting(): void {
    this.#waiting?.shelved.adapter.dispose();
    this.#waiting = undefined;
  }

  /** Drops what was used longest ago until `bytes` more fit. Returns false if what is in use takes too much. */
  #makeRoom(bytes: number, inUse: ReadonlySet<string>): boolean {
    for (const [key, shelved] of this.#shelved) {
      if (this.#used + bytes <= this.#bytes) return true;
      if (!inUse.has(key)) this.#drop(key, shelved);
    }
    return this.#used + bytes <= this.#bytes || this.#shelved.size === 0;
  }

  #drop(key: string, { adapter }: Shelved): void {
    adapter.dispose();
    this.#used -= adapter.bytes;
    this.#shelved.delete(key);
    this.#onUnload(key);
  }
}
