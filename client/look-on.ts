/** Looks again and again at something that goes on by itself, also while whoever takes what is found is busy with it. */

import { setTimeout as sleep } from 'node:timers/promises';

export interface Found<T> {
  readonly items: readonly T[];
  /** There will be no more. */
  readonly over: boolean;
}

/** Between one who finds and one who takes. */
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

  /** The next one; `undefined` at the end. Errors: that of the end, when all has been taken. */
  async take(): Promise<{ readonly item: T } | undefined> {
    // Looking keeps no process alive, since nobody may ever take again: waiting does.
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
 * What `look` finds, from the first `next()` on until it is over, left or aborted. Errors: those of `look`, when what was
 * found before has been taken; the reason of `signal`, at once.
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
