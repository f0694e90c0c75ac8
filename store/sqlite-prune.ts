/**
 * Deletes records from a store's file. Each call is one transaction, and a repeated call changes nothing. The caller
 * decides what to delete, and how much at a time so that no writer waits long.
 */

import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterPrefix } from './checked-rows.ts';
import { classifyDiskError } from './disk-errors.ts';
import type { Pruner } from './open-store.ts';

/** How long to wait for another process's transaction. In milliseconds. */
const BUSY_TIMEOUT_MS = 30_000;

const file = (dir: string): string => join(dir, 'store.sqlite');

/** Bytes of the store's file and its log. */
export function storeBytes(dir: string): number {
  return [file(dir), `${file(dir)}-wal`].reduce((sum, path) => sum + (existsSync(path) ? statSync(path).size : 0), 0);
}

/** Prefixes of rows' keys, by table. */
export interface Prefixes {
  readonly results: readonly string[];
  readonly executions: readonly string[];
}

/** Numbers of rows, by table. */
export interface Removed {
  readonly results: number;
  readonly executions: number;
}

export interface RemovedNaming {
  readonly results: number;
  readonly objects: number;
}

interface Bound {
  readonly get: () => unknown;
  readonly run: () => { readonly changes: number | bigint };
}

/** Errors, of the constructor and of every method: disk errors by their class, and others of SQLite. */
export class StorePruner implements Pruner {
  readonly #dir: string;
  readonly #db: DatabaseSync;

  /** `dir` must contain a store. */
  constructor(dir: string) {
    this.#dir = dir;
    this.#db = this.#classifyDiskError(() => new DatabaseSync(file(dir), { timeout: BUSY_TIMEOUT_MS }));
  }

  /** Counts the rows whose keys have one of the prefixes. */
  count(prefixes: Prefixes): Removed {
    return this.#classifyDiskError(() =>
      this.#each(
        'SELECT count(*) AS n FROM TABLE WHERE key >= ? AND key < ?',
        prefixes,
        (row) => (row.get() as { n: number }).n,
      ),
    );
  }

  /** Deletes the rows whose keys have one of the prefixes, in one transaction. Returns how many there were. */
  delete(prefixes: Prefixes): Removed {
    return this.#transaction(() =>
      this.#each('DELETE FROM TABLE WHERE key >= ? AND key < ?', prefixes, (row) => Number(row.run().changes)),
    );
  }

  deleteResult(key: string): void {
    this.#transaction(() => this.#db.prepare('DELETE FROM results WHERE key = ?').run(key));
  }

  /**
   * Deletes results whose keys have one of the prefixes `begins`. Also deletes the objects that they name, except those
   * that a remaining result under one of `within` names. One transaction, so that a kill never separates results and
   * objects.
   */
  deleteNaming(begins: readonly string[], within: readonly string[]): RemovedNaming {
    return this.#transaction(() => {
      const doomed = this.#refsUnder(begins);
      const { results } = this.#each(
        'DELETE FROM TABLE WHERE key >= ? AND key < ?',
        { results: begins, executions: [] },
        (row) => Number(row.run().changes),
      );
      if (doomed.size === 0) return { results, objects: 0 };
      const kept = this.#refsUnder(within);
      const remove = this.#db.prepare('DELETE FROM objects WHERE ref = ?');
      const objects = [...doomed]
        .filter((ref) => !kept.has(ref))
        .reduce((sum, ref) => sum + Number(remove.run(ref).changes), 0);
      return { results, objects };
    });
  }

  #refsUnder(begins: readonly string[]): Set<string> {
    const select = this.#db.prepare(
      "SELECT coalesce(json_extract(value, '$.artifact'), json_extract(value, '$.exchange')) AS ref FROM " +
        'results WHERE key >= ? AND key < ?',
    );
    return new Set(
      begins.flatMap((begin) =>
        select.all(begin, afterPrefix(begin)).flatMap(({ ref }) => (typeof ref === 'string' ? [ref] : [])),
      ),
    );
  }

  /** Returns the file's free pages to the disk. It rewrites the whole file, and all other writers wait meanwhile. */
  shrink(): void {
    this.#classifyDiskError(() => this.#db.exec('VACUUM; PRAGMA wal_checkpoint(TRUNCATE)'));
  }

  close(): void {
    this.#db.close();
  }

  #each(sql: string, { results, executions }: Prefixes, work: (row: Bound) => number): Removed {
    const over = (table: keyof Removed, prefixes: readonly string[]): number => {
      const statement = this.#db.prepare(sql.replace('TABLE', table));
      return prefixes.reduce((sum, prefix) => {
        const range = [prefix, afterPrefix(prefix)] as const;
        return sum + work({ get: () => statement.get(...range), run: () => statement.run(...range) });
      }, 0);
    };
    return { results: over('results', results), executions: over('executions', executions) };
  }

  #transaction<T>(body: () => T): T {
    return this.#classifyDiskError(() => {
      this.#db.exec('BEGIN IMMEDIATE');
      try {
        const result = body();
        this.#db.exec('COMMIT');
        return result;
      } catch (error) {
        if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
        throw error;
      }
    });
  }

  #classifyDiskError<T>(body: () => T): T {
    try {
      return body();
    } catch (error) {
      throw classifyDiskError(error, this.#dir);
    }
  }
}
