/** Reads every row of a store and names those that are not what was written. It changes nothing, and the stack may run meanwhile. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as otherWork } from 'node:timers/promises';
import { type CheckedRow, damageOf, keyOf, nameOf } from './checked-rows.ts';
import { named, StoreCorrupt } from './disk-errors.ts';
import { checkFormat } from './store-format.ts';

export const TABLES = { records: 'results', objects: 'objects', events: 'events', executions: 'executions' } as const;
export type RowKind = keyof typeof TABLES;

export interface DamagedRow {
  /** `file`: SQLite's own structure, of which a part could not be read. */
  readonly kind: RowKind | 'file';
  readonly key: string;
  readonly problem: string;
  /** Of an event: whose it is. */
  readonly run?: string;
  /** Of an object: keys of the records that name it. */
  readonly namedBy?: readonly string[];
}

export interface StoreReport {
  /** Rows that were read, by kind. */
  readonly read: Readonly<Record<RowKind, number>>;
  readonly damaged: readonly DamagedRow[];
}

export interface VerifyOptions {
  /** Told from time to time how many rows have been read. */
  readonly progress?: (read: number) => void;
  /** Aborted: it ends with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Between two looks at the rest of the process. */
const BATCH = 2_000;
/** Lines of SQLite's own check. */
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
    return { read: this.#read, damaged: this.#damaged.map((row) => (row.kind === 'objects' ? { ...row, namedBy: this.#namedBy(row.key) } : row)) };
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
      const known = named(error, TABLES[kind]);
      if (!(known instanceof StoreCorrupt) || !(error instanceof Error)) throw known;
      this.#damaged.push({ kind: 'file', key: `table ${TABLES[kind]}`, problem: `cannot be read beyond its row ${this.#read[kind]}: ${error.message}` });
    }
  }

  #row(kind: RowKind, row: CheckedRow): void {
    this.#read[kind] += 1;
    this.#total += 1;
    const problem = damageOf(row);
    if (problem === undefined) return;
    this.#damaged.push({ kind, key: keyOf(row), problem: `${nameOf(row)} ${problem}`, ...('run' in row ? { run: String(row.run) } : {}) });
  }

  /** Rows that an index does not find, or finds in another place: none of them has other bytes. */
  #structure(): void {
    try {
      const lines = this.#db.prepare(`PRAGMA integrity_check(${PROBLEMS})`).all().map((row) => String(row['integrity_check']));
      for (const line of lines) if (line !== 'ok') this.#damaged.push({ kind: 'file', key: 'structure', problem: line });
    } catch (error) {
      if (!(named(error, '') instanceof StoreCorrupt) || !(error instanceof Error)) throw error;
      this.#damaged.push({ kind: 'file', key: 'structure', problem: error.message });
    }
  }

  #namedBy(ref: string): readonly string[] {
    const rows = this.#db.prepare('SELECT key FROM results WHERE instr(value, ?) > 0').all(ref);
    return rows.map(({ key }) => String(key));
  }
}

/**
 * Of the store in `dir`; `undefined` where there is none.
 * Errors: `StoreFormatUnknown`; those of the disk, by their class; the reason of `signal`.
 */
export async function verifyStore(dir: string, options: VerifyOptions = {}): Promise<StoreReport | undefined> {
  const file = join(dir, 'store.sqlite');
  if (!existsSync(file)) return undefined;
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
    checkFormat(db, dir);
    return await new Verifier(db, options).verify();
  } catch (error) {
    throw named(error, dir);
  } finally {
    db?.close();
  }
}
