/** Reads every row of a store and reports the damaged ones. It changes nothing, and the stack may run meanwhile. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as otherWork } from 'node:timers/promises';
import { afterPrefix, type CheckedRow, damageOf, keyOf, nameOf, type ResultRow } from './checked-rows.ts';
import { classifyDiskError, StoreCorrupt } from './disk-errors.ts';
import { checkFormat } from './store-format.ts';

export const TABLES = { records: 'results', objects: 'objects', events: 'events', executions: 'executions' } as const;
export type RowKind = keyof typeof TABLES;

export interface DamagedRow {
  /** `file`: a part of SQLite's own structure could not be read. */
  readonly kind: RowKind | 'file';
  readonly key: string;
  readonly problem: string;
  /** Of an event: its run. */
  readonly run?: string;
  /** Of an object: keys of the records that name it. */
  readonly namedBy?: readonly string[];
}

export interface StoreReport {
  /** Number of rows read, by kind. */
  readonly read: Readonly<Record<RowKind, number>>;
  readonly damaged: readonly DamagedRow[];
}

export interface VerifyOptions {
  /** Called from time to time with the number of rows read so far. */
  readonly progress?: (read: number) => void;
  /** When it is aborted, the check ends with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Rows between two yields to the event loop. */
const BATCH = 2_000;
/** Most lines of SQLite's integrity check. */
const PROBLEMS = 20;

class Verifier {
  readonly #db: DatabaseSync;
  readonly #options: VerifyOptions;
  readonly #read: Record<RowKind, number> = { records: 0, objects: 0, events: 0, executions: 0 };
  readonly #damaged: DamagedRow[] = [];
  #total = 0;

  constructor(db: DatabaseSync, options: VerifyOptions) {
    this.#db = db;
    this.#options = options;
  }

  async verify(): Promise<StoreReport> {
    for (const kind of Object.keys(TABLES) as RowKind[]) await this.#table(kind);
    this.#structure();
    return {
      read: this.#read,
      damaged: this.#damaged.map((row) => (row.kind === 'objects' ? { ...row, namedBy: this.#namedBy(row.key) } : row)),
    };
  }

  async #table(kind: RowKind): Promise<void> {
    try {
      for (const row of this.#db.prepare(`SELECT * FROM ${TABLES[kind]}`).iterate()) {
        this.#row(kind, row as unknown as CheckedRow);
        if (this.#total % BATCH !== 0) continue;
        this.#options.progress?.(this.#total);
        await otherWork();
        this.#options.signal?.throwIfAborted();
      }
    } catch (error) {
      const known = classifyDiskError(error, TABLES[kind]);
      if (!(known instanceof StoreCorrupt) || !(error instanceof Error)) throw known;
      this.#damaged.push({
        kind: 'file',
        key: `table ${TABLES[kind]}`,
        problem: `cannot be read after row ${this.#read[kind]}: ${error.message}`,
      });
    }
  }

  #row(kind: RowKind, row: CheckedRow): void {
    this.#read[kind] += 1;
    this.#total += 1;
    const problem = damageOf(row);
    if (problem === undefined) return;
    this.#damaged.push({
      kind,
      key: keyOf(row),
      problem: `${nameOf(row)} ${problem}`,
      ...('run' in row ? { run: String(row.run) } : {}),
    });
  }

  /** Finds rows that are missing in an index or have a wrong place in it. A checksum of the row cannot find these. */
  #structure(): void {
    try {
      const lines = this.#db
        .prepare(`PRAGMA integrity_check(${PROBLEMS})`)
        .all()
        .map((row) => String(row['integrity_check']));
      for (const line of lines)
        if (line !== 'ok') this.#damaged.push({ kind: 'file', key: 'structure', problem: line });
    } catch (error) {
      if (!(classifyDiskError(error, '') instanceof StoreCorrupt) || !(error instanceof Error)) throw error;
      this.#damaged.push({ kind: 'file', key: 'structure', problem: error.message });
    }
  }

  /** As far as the records can be read, from both ends. Unreadable ones are already reported for their table. */
  #namedBy(ref: string): readonly string[] {
    const found = new Set<string>();
    const search = (order: string) =>
      readable(() => {
        const named = this.#db.prepare(`SELECT key FROM results WHERE instr(value, ?) > 0 ORDER BY seq ${order}`);
        for (const { key } of named.iterate(ref)) found.add(String(key));
      });
    if (!search('ASC')) search('DESC');
    return [...found];
  }
}

/** False if a part of the file that `body` reads is damaged. Errors: others of SQLite. */
function readable(body: () => void): boolean {
  try {
    body();
    return true;
  } catch (error) {
    if (!(classifyDiskError(error, '') instanceof StoreCorrupt)) throw error;
    return false;
  }
}

/** Opens the store in `dir` for reading. Returns `undefined` if there is none. Errors: those of `verifyStore`. */
async function reading<T>(dir: string, body: (db: DatabaseSync) => T | Promise<T>): Promise<T | undefined> {
  const file = join(dir, 'store.sqlite');
  if (!existsSync(file)) return undefined;
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
    checkFormat(db, dir);
    return await body(db);
  } catch (error) {
    throw classifyDiskError(error, dir);
  } finally {
    db?.close();
  }
}

/**
 * Verifies the store in `dir`. Returns `undefined` if there is none.
 * Errors: `StoreFormatUnknown`; disk errors by their class; the reason of `signal`.
 */
export function verifyStore(dir: string, options: VerifyOptions = {}): Promise<StoreReport | undefined> {
  return reading(dir, (db) => new Verifier(db, options).verify());
}

export interface WholeRecords<T> {
  readonly whole: ReadonlyArray<{ readonly key: string; readonly value: T }>;
  /** Number of damaged records. */
  readonly damaged: number;
  /** True if a part of the file could not be read: it may contain more records. */
  readonly cut: boolean;
}

/** Reads the records with `prefix` row by row, so that a damaged one hides no other. Errors: those of `verifyStore`. */
export async function wholeRecords<T>(dir: string, prefix: string): Promise<WholeRecords<T>> {
  const whole: Array<{ key: string; value: T }> = [];
  let damaged = 0;
  const all = await reading(dir, (db) =>
    readable(() => {
      const rows = db
        .prepare('SELECT key, at, value, sum FROM results WHERE key >= ? AND key < ? ORDER BY key')
        .iterate(prefix, afterPrefix(prefix));
      for (const row of rows as Iterable<unknown> as Iterable<ResultRow>) {
        if (damageOf(row) === undefined) whole.push({ key: row.key, value: JSON.parse(row.value) as T });
        else damaged += 1;
      }
    }),
  );
  return { whole, damaged, cut: all === false };
}
