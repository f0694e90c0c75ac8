/** Polls something in the background, also while the consumer is busy with an earlier item. */

import { setTimeout as sleep } from 'node:timers/promises';

export interface Found<T> {
  readonly items: readonly T[];
  /** True if there will be no more items. */
  readonly over: boolean;
}

/** The queue between the poll and the consumer. */
class Buffer<T> {
  readonly #items: T[] = [];
  #end: { readonly error?: unknown } | undefined;
  #wake: () => void = () => undefined;

  add(items: readonly T[]): void {
    this.#items.push(...items);
    this.#wake();
  }

  end(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    this.#wake();
  }

  /** The next item; `undefined` at the end. Errors: that of the end, after all items were taken. */
  async take(): Promise<{ readonly item: T } | undefined> {
    // Polling does not keep the process alive, since the consumer may never take again; waiting for an item does.
    const alive = setInterval(() => undefined, 60_000);
    try {
      while (this.#items.length === 0 && !this.#end) await new Promise<void>((resolve) => (this.#wake = resolve));
    } finally {
      clearInterval(alive);
    }
    if (this.#items.length > 0) return { item: this.#items.shift() as T };
    if (this.#end && 'error' in this.#end) throw this.#end.error;
    return undefined;
  }
}

async function fill<T>(
  buffer: Buffer<T>,
  look: () => Promise<Found<T>>,
  pollMs: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    for (;;) {
      const { items, over } = await look();
      buffer.add(items);
      if (over) break;
      await sleep(pollMs, undefined, { signal, ref: false });
    }
    buffer.end({});
  } catch (error) {
    buffer.end({ error });
  }
}

/**
 * The items that `look` finds, polled from the first `next()` until they are over, the consumer leaves or `signal`
 * fires. Errors: those of `look`, after the items found before; the reason of `signal`, at once.
 */
export async function* lookOn<T>(
  look: (signal: AbortSignal) => Promise<Found<T>>,
  pollMs: number,
  signal?: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  signal?.throwIfAborted();
  const left = new AbortController();
  const buffer = new Buffer<T>();
  const stop = () => {
    left.abort();
    buffer.end({ error: signal?.reason });
  };
  signal?.addEventListener('abort', stop, { once: true });
  void fill(buffer, () => look(left.signal), pollMs, left.signal);
  try {
    for (let taken = await buffer.take(); taken; taken = await buffer.take()) {
      signal?.throwIfAborted();
      yield taken.item;
    }
  } finally {
    signal?.removeEventListener('abort', stop);
    left.abort();
  }
}
