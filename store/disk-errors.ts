/**
 * Disk errors, by class: full, read-only, locked by another program, or damaged. All except the last are transient:
 * work continues when they are over. Damage is never classified as one of the others.
 */

import { constants } from 'node:fs';
import { accessSync, statfsSync } from 'node:fs';

/** The disk of `place` is full. When space is free again, waiting work continues by itself. */
export class StoreFull extends Error {
  override readonly name = 'StoreFull';
  readonly place: string;

  constructor(place: string, options?: ErrorOptions) {
    super(`No space is left at ${place}: free some space; waiting work then continues by itself`, options);
    this.place = place;
  }
}

/** The disk of `place` cannot be written to. */
export class StoreReadOnly extends Error {
  override readonly name = 'StoreReadOnly';
  readonly place: string;

  constructor(place: string, options?: ErrorOptions) {
    super(
      `${place} can only be read: mount it for writing, or let this user write to it; ` +
        'waiting work then continues by itself',
      options,
    );
    this.place = place;
  }
}

/** Another program keeps a transaction of the store open. */
export class StoreBusy extends Error {
  override readonly name = 'StoreBusy';
  readonly place: string;

  constructor(place: string, options?: ErrorOptions) {
    super(
      `The store at ${place} is locked by another program: end its transaction (an open sqlite3, a backup); ` +
        'waiting work then continues by itself',
      options,
    );
    this.place = place;
  }
}

/** Data that was read is not what was written. A retry does not help. */
export class StoreCorrupt extends Error {
  override readonly name = 'StoreCorrupt';
  /** The folder of the store. Empty if only the record is known. */
  readonly place: string;
  /** The key of the damaged record, object or event. Absent if the whole file is damaged. */
  readonly key?: string;

  constructor(place: string, problem: string, { key, ...options }: ErrorOptions & { readonly key?: string } = {}) {
    const remedy =
      key === undefined
        ? "restore the file from a copy, or repair it with sqlite3's .recover"
        : 'restore store.sqlite from a copy, or start a run with another name (npx longhaul doctor --store lists ' +
          'all damaged records)';
    super(
      `The store${place === '' ? '' : ` at ${place}`} is damaged (${problem}): stop the stack, and ${remedy}`,
      options,
    );
    this.place = place;
    if (key !== undefined) this.key = key;
  }
}

/** SQLite's primary result codes: https://sqlite.org/rescode.html */
const SQLITE = { BUSY: 5, LOCKED: 6, READONLY: 8, IOERR: 10, CORRUPT: 11, FULL: 13, CANTOPEN: 14, NOTADB: 26 } as const;

function freeBytes(dir: string): number {
  try {
    const { bavail, bsize } = statfsSync(dir);
    return bavail * bsize;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

function isWritable(dir: string): boolean {
  try {
    accessSync(dir, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function ofFiles(error: Error & { code?: unknown; path?: unknown }, place: string): Error | undefined {
  const at = typeof error.path === 'string' ? error.path : place;
  if (error.code === 'ENOSPC' || error.code === 'EDQUOT') return new StoreFull(at, { cause: error });
  if (error.code === 'EROFS') return new StoreReadOnly(at, { cause: error });
  return undefined;
}

/** SQLite may report an I/O error for a full or read-only file system: the present state of the file system decides. */
function ofSqlite(error: Error & { errcode?: unknown }, dir: string): Error | undefined {
  if (typeof error.errcode !== 'number') return undefined;
  const code = error.errcode & 0xff;
  if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB) return new StoreCorrupt(dir, error.message, { cause: error });
  if (code === SQLITE.BUSY || code === SQLITE.LOCKED) return new StoreBusy(dir, { cause: error });
  if (code === SQLITE.FULL) return new StoreFull(dir, { cause: error });
  if (code === SQLITE.READONLY) return new StoreReadOnly(dir, { cause: error });
  if (code !== SQLITE.IOERR && code !== SQLITE.CANTOPEN) return undefined;
  if (!isWritable(dir)) return new StoreReadOnly(dir, { cause: error });
  return freeBytes(dir) < 1 << 20 ? new StoreFull(dir, { cause: error }) : undefined;
}

/** Returns `error` as its class if the disk caused it, else unchanged. `place`: used if the error names no path. */
export function classifyDiskError(error: unknown, place: string): unknown {
  if (!(error instanceof Error)) return error;
  return ofFiles(error, place) ?? ofSqlite(error, place) ?? error;
}

const PASSING: ReadonlySet<string> = new Set(['StoreFull', 'StoreReadOnly', 'StoreBusy']);

/** True if the error may end without any action of this process. */
export function isTransient(error: unknown): error is StoreFull | StoreReadOnly | StoreBusy {
  return error instanceof Error && PASSING.has(error.name);
}
