/**
 * What a disk can do to us, by class: full, read-only, held by somebody else, or damaged. All but the last pass, and work
 * goes on when they have; damage is never read as something else.
 */

import { constants } from 'node:fs';
import { accessSync, statfsSync } from 'node:fs';

/** No room is left where `place` is; free some, and what waits goes on by itself. */
export class StoreFull extends Error {
  override readonly name = 'StoreFull';
  readonly place: string;

  constructor(place: string, options?: ErrorOptions) {
    super(`No space is left at ${place}: free some there; what waits goes on by itself`, options);
    this.place = place;
  }
}

/** Nothing can be written where `place` is. */
export class StoreReadOnly extends Error {
  override readonly name = 'StoreReadOnly';
  readonly place: string;

  constructor(place: string, options?: ErrorOptions) {
    super(
      `${place} can only be read: mount it for writing again, or give it back to this user; what waits goes on by itself`,
      options,
    );
    this.place = place;
  }
}

/** Another program is in the middle of a transaction there, and does not end it. */
export class StoreBusy extends Error {
  override readonly name = 'StoreBusy';
  readonly place: string;

  constructor(place: string, options?: ErrorOptions) {
    super(
      `The store at ${place} is locked by another program: end its transaction (an open sqlite3, a backup); what waits goes on by itself`,
      options,
    );
    this.place = place;
  }
}

/** What is read is not what was written: trying again does not help. */
export class StoreCorrupt extends Error {
  override readonly name = 'StoreCorrupt';
  /** The folder of the store; empty where only the record is known. */
  readonly place: string;
  /** Of the damaged record, object or event; absent where the whole file is damaged. */
  readonly key?: string;

  constructor(place: string, problem: string, { key, ...options }: ErrorOptions & { readonly key?: string } = {}) {
    const remedy =
      key === undefined
        ? "bring the file back from a copy or by sqlite3's .recover"
        : 'bring store.sqlite back from a copy, or start a run of another name (npx longhaul doctor --store lists all that is damaged)';
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

/** SQLite says I/O error, too, where the file system is full or read-only: what is so now decides. */
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

/** `error` by its class where the disk is to blame, else as it is. `place`: where it was met, if it does not say so itself. */
export function classifyDiskError(error: unknown, place: string): unknown {
  if (!(error instanceof Error)) return error;
  return ofFiles(error, place) ?? ofSqlite(error, place) ?? error;
}

const PASSING: ReadonlySet<string> = new Set(['StoreFull', 'StoreReadOnly', 'StoreBusy']);

/** Whether the disk may be well again without anything being done here. */
export function isTransient(error: unknown): error is StoreFull | StoreReadOnly | StoreBusy {
  return error instanceof Error && PASSING.has(error.name);
}
