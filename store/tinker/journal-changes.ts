/**
 * Wakes those who wait for a result or for work, whichever process wrote it. Who has written touches a file that the
 * others watch. The journal's version is polled as well, while somebody waits: seldom beside a watch that works, else
 * at a hundredth of the time since the last change, so that a wait is lengthened by a percent, or by 2 ms.
 */

import { closeSync, type FSWatcher, openSync, watch, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { JournalDb } from './journal-db.ts';

/** In milliseconds. */
const SHORTEST_MS = 2;
const LONGEST_MS = 25;

/** Its one byte says nothing: that it was written is the message. */
const TOUCHED = 'changed';
const BYTE = Buffer.from('\n');

type Row = Readonly<Record<string, unknown>>;

export const resultKey = (request: string): string => `result ${request}`;
export const modelKey = (model: string): string => `model ${model}`;
export const samplingKey = (base: string): string => `sampling ${base}`;

export class JournalChanges {
  readonly #db: JournalDb;
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #isChanged: () => boolean;
  #operations = 0;
  #results = 0;
  #timer: NodeJS.Timeout | undefined;
  #changedAt = 0;
  #closed = false;
  #touched: number | undefined;
  #watcher: FSWatcher | undefined;

  constructor(db: JournalDb) {
    this.#db = db;
    this.#isChanged = db.changedByOthers();
    this.#watch(join(db.dir, TOUCHED));
    db.afterWrite = () => {
      this.#touch();
      if (this.#waiting.size > 0) this.#notify();
    };
  }

  /** A file system, or a machine, that has no watches left has polls alone. */
  #watch(file: string): void {
    try {
      closeSync(openSync(file, 'a', 0o600));
      this.#touched = openSync(file, 'r+');
      const watcher = watch(file, { persistent: false }, (event) => {
        if (event === 'rename') this.#unwatch();
        else if (this.#waiting.size > 0 && !this.#closed && this.#hasChanged()) this.#notify();
      });
      this.#watcher = watcher.on('error', () => this.#unwatch());
    } catch {
      this.#unwatch();
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  /** After the transaction, so that a waiter that it wakes finds what was written. */
  #touch(): void {
    if (this.#touched === undefined) return;
    try {
      writeSync(this.#touched, BYTE, 0, 1, 0);
    } catch {
      // Others find the change by their polls.
    }
  }

  /** Calls `onChange` at each change of `key` from now on. Returns what ends that. */
  on(key: string, onChange: () => void): () => void {
    if (this.#waiting.size === 0) this.#start();
    const known = this.#waiting.get(key) ?? new Set();
    this.#waiting.set(key, known.add(onChange));
    return () => {
      known.delete(onChange);
      if (known.size === 0 && this.#waiting.get(key) === known) this.#waiting.delete(key);
    };
  }

  #start(): void {
    this.#operations = Number(this.#db.sql('SELECT max(seq) AS n FROM operations').get()?.['n'] ?? 0);
    this.#results = Number(this.#db.sql('SELECT max(seq) AS n FROM results').get()?.['n'] ?? 0);
    this.#changedAt = performance.now();
    this.#isChanged();
    this.#poll();
  }

  #poll(): void {
    clearTimeout(this.#timer);
    const since = performance.now() - this.#changedAt;
    const milliseconds = this.#watcher === undefined ? Math.max(since / 100, SHORTEST_MS) : LONGEST_MS;
    this.#timer = setTimeout(() => this.#look(), Math.min(milliseconds, LONGEST_MS));
  }

  #look(): void {
    if (this.#closed || this.#waiting.size === 0) return;
    if (this.#hasChanged()) this.#notify();
    this.#poll();
  }

  /** An unreadable file is looked at again: a waiter has a limit of its own, and asks itself at its end. */
  #hasChanged(): boolean {
    try {
      return this.#isChanged();
    } catch {
      return false;
    }
  }

  #notify(): void {
    this.#changedAt = performance.now();
    const { operations, results } = this.#news();
    const keys = new Set([
      ...results.map(({ request }) => resultKey(String(request))),
      ...operations.map(({ lane, base, sampling }) =>
        Number(sampling) === 1 ? samplingKey(String(base)) : modelKey(String(lane)),
      ),
    ]);
    for (const key of keys) for (const told of this.#waiting.get(key) ?? []) told();
  }

  #news(): { readonly operations: Row[]; readonly results: Row[] } {
    try {
      return this.#read();
    } catch {
      return { operations: [], results: [] };
    }
  }

  #read(): { readonly operations: Row[]; readonly results: Row[] } {
    const operations = this.#db
      .sql('SELECT seq, lane, base, sampling FROM operations WHERE seq > ? ORDER BY seq')
      .all(this.#operations);
    const results = this.#db.sql('SELECT seq, request FROM results WHERE seq > ? ORDER BY seq').all(this.#results);
    this.#operations = Number(operations.at(-1)?.['seq'] ?? this.#operations);
    this.#results = Number(results.at(-1)?.['seq'] ?? this.#results);
    return { operations, results };
  }

  /** Waits for one of `keys`, at most `milliseconds`. `isDone` is asked first, and after each change. */
  async until<T>(
    keys: readonly string[],
    milliseconds: number,
    signal: AbortSignal | undefined,
    isDone: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const until = performance.now() + milliseconds;
    let news = Promise.withResolvers<undefined>();
    const told = () => news.resolve(undefined);
    const ends = keys.map((key) => this.on(key, told));
    signal?.addEventListener('abort', told);
    try {
      for (;;) {
        const done = await isDone();
        const left = until - performance.now();
        if (done !== undefined || left <= 0 || signal?.aborted === true || this.#closed) return done;
        const timer = setTimeout(told, Math.min(left, 2 ** 31 - 1));
        await news.promise;
        clearTimeout(timer);
        news = Promise.withResolvers();
      }
    } finally {
      for (const end of ends) end();
      signal?.removeEventListener('abort', told);
    }
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#unwatch();
    if (this.#touched !== undefined) closeSync(this.#touched);
    this.#touched = undefined;
    for (const all of this.#waiting.values()) for (const told of all) told();
  }
}
