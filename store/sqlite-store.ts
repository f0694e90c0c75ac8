/**
 * The store in one SQLite file, shared by all processes of a host. Each method is one transaction: a reader sees a
 * complete record or none, and a killed process leaves none half-written. Every row that training, grading or a report
 * reads is checked against its checksum. Leases have no checksum: they live for minutes, and no result depends on them.
 */

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import {
  afterPrefix,
  type CheckedRow,
  damageOf,
  type EventRow,
  type ExecutionRow,
  keyOf,
  nameOf,
  type ObjectRow,
  refOf,
  type ResultRow,
  checksumOf,
  checksumOfAll,
  recordSum,
} from './checked-rows.ts';
import { classifyDiskError, StoreCorrupt } from './disk-errors.ts';
import { namedStore } from './named-store.ts';
import type { Patience } from './disk-patience.ts';
import { checkFormat, FORMAT } from './store-format.ts';
import { changesIn } from './sqlite-changes.ts';
import {
  type Changes,
  type Execution,
  FORGOTTEN_AFTER_MS,
  type Lease,
  type LeaseRoom,
  type RolloutEvent,
  type Store,
  type WorkerReport,
} from './store.ts';
import type { ObjectRef } from '../protocol/stages.ts';

const SCHEMA = `
CREATE TABLE about (identity TEXT NOT NULL);
CREATE TABLE results (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, at TEXT NOT NULL, sum INTEGER NOT NULL,
  value TEXT NOT NULL);
CREATE TABLE objects (ref TEXT PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, rollout TEXT NOT NULL, attempt INTEGER NOT NULL,
  event TEXT NOT NULL, at TEXT NOT NULL, detail TEXT NOT NULL DEFAULT '', sum INTEGER NOT NULL,
  UNIQUE (rollout, attempt, event, detail));
CREATE INDEX events_by_run ON events (run, seq);
CREATE TABLE executions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, at TEXT NOT NULL, sum INTEGER NOT NULL);
CREATE INDEX executions_by_key ON executions (key);
CREATE TABLE leases (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, host TEXT NOT NULL, expires_at INTEGER NOT NULL,
  detail TEXT NOT NULL, memory_mib INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX leases_by_kind ON leases (kind, host, expires_at);
CREATE TABLE workers (id TEXT PRIMARY KEY, seen TEXT NOT NULL, report TEXT NOT NULL) WITHOUT ROWID;
`;

/**
 * How long a writer waits for another process's transaction before it fails as `StoreBusy`. In milliseconds. The whole
 * process is blocked during this wait, so writers with patience wait for a shorter time and retry.
 */
const BUSY_TIMEOUT_MS = 5_000;
const PATIENT_BUSY_TIMEOUT_MS = 200;

function now(): string {
  return new Date().toISOString();
}

interface LeaseRow {
  id: string;
  kind: string;
  owner: string;
  host: string;
  expires_at: number;
  detail: string;
  memory_mib: number;
}

class SqliteStore implements Store {
  readonly #dir: string;
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  /** Opening is not retried, so it always waits the full time. */
  constructor(dir: string, busyTimeoutMs: number) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    this.#db = new DatabaseSync(join(dir, 'store.sqlite'), { timeout: BUSY_TIMEOUT_MS });
    this.#db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;');
    this.#openTables();
    this.#db.exec(`PRAGMA busy_timeout=${busyTimeoutMs}`);
  }

  /** Errors: `StoreFormatUnknown`. */
  #openTables(): void {
    const isNew = () => this.#db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (isNew()) this.#transaction(() => isNew() && this.#create());
    checkFormat(this.#db, this.#dir);
  }

  #create(): void {
    this.#db.exec(SCHEMA);
    this.#db.prepare('INSERT INTO about (identity) VALUES (?)').run(randomUUID());
    this.#db.exec(`PRAGMA user_version=${FORMAT}`);
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const statement = this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  /** Errors: `StoreCorrupt` for a row that is not what was written. */
  #checked<Row extends CheckedRow>(row: Row): Row {
    const problem = damageOf(row);
    if (problem === undefined) return row;
    throw new StoreCorrupt(this.#dir, `${nameOf(row)} ${problem}`, { key: keyOf(row) });
  }

  #valueOf<T>(row: ResultRow): T {
    return JSON.parse(this.#checked(row).value) as T;
  }

  #transaction<T>(body: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE');
    try {
      const result = body();
      this.#db.exec('COMMIT');
      return result;
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  async putOnce<T>(key: string, value: T): Promise<T> {
    return this.#insert(key, value) ? value : this.#kept<T>(key);
  }

  /** False if the key exists already. */
  #insert(key: string, value: unknown): boolean {
    const json = JSON.stringify(value);
    if (json === undefined) throw new TypeError(`Result ${key} is undefined; give null instead`);
    const at = now();
    const { changes } = this.#prepare('INSERT OR IGNORE INTO results (key, at, sum, value) VALUES (?, ?, ?, ?)').run(
      key,
      at,
      recordSum(key, at, json),
      json,
    );
    return changes === 1;
  }

  async #kept<T>(key: string): Promise<T> {
    const kept = await this.get<T>(key);
    if (kept === undefined) throw new Error(`Result ${key} vanished from the store`);
    return kept;
  }

  async get<T>(key: string): Promise<T | undefined> {
    const row = this.#prepare('SELECT key, at, value, sum FROM results WHERE key = ?').get(key) as
      | ResultRow
      | undefined;
    return row === undefined ? undefined : this.#valueOf<T>(row);
  }

  async list<T>(prefix: string): Promise<Array<{ key: string; value: T }>> {
    const rows = this.#prepare('SELECT key, at, value, sum FROM results WHERE key >= ? AND key < ? ORDER BY key').all(
      prefix,
      afterPrefix(prefix),
    ) as unknown as ResultRow[];
    return rows.map((row) => ({ key: row.key, value: this.#valueOf<T>(row) }));
  }

  async putObject(bytes: Uint8Array): Promise<ObjectRef> {
    return this.#insertObject(bytes);
  }

  #insertObject(bytes: Uint8Array): ObjectRef {
    const ref = refOf(bytes);
    this.#prepare('INSERT OR IGNORE INTO objects (ref, bytes) VALUES (?, ?)').run(ref, bytes);
    return ref;
  }

  async putOnceWithObject<T>(key: string, bytes: Uint8Array, valueOf: (ref: ObjectRef) => T): Promise<T> {
    const put = this.#transaction(() => {
      // No object is stored without a record that names it: objects are deleted through these records.
      if (this.#prepare('SELECT 1 FROM results WHERE key = ?').get(key) !== undefined) return undefined;
      const value = valueOf(this.#insertObject(bytes));
      this.#insert(key, value);
      return { value };
    });
    return put === undefined ? this.#kept<T>(key) : put.value;
  }

  async getObject(ref: ObjectRef): Promise<Uint8Array> {
    const row = this.#prepare('SELECT ref, bytes FROM objects WHERE ref = ?').get(ref) as ObjectRow | undefined;
    if (!row) throw new StoreCorrupt(this.#dir, `the object ${ref} is missing`, { key: ref });
    return this.#checked(row).bytes;
  }

  async append(events: readonly RolloutEvent[]): Promise<void> {
    const insert = this.#prepare(
      'INSERT OR IGNORE INTO events (run, rollout, attempt, event, at, detail, sum) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#transaction(() => {
      for (const { run, rollout, attempt, event, at, detail = '' } of events) {
        const columns = [run, rollout, attempt, event, at, detail] as const;
        insert.run(...columns, checksumOfAll(columns));
      }
    });
  }

  async events(run: string): Promise<RolloutEvent[]> {
    return (await this.eventsSince(run, 0)).events;
  }

  async eventsSince(run: string, after: number): Promise<{ events: RolloutEvent[]; last: number }> {
    const rows = this.#prepare(
      'SELECT seq, run, rollout, attempt, event, at, detail, sum FROM events WHERE run = ? AND seq > ? ORDER BY seq',
    ).all(run, after) as unknown as EventRow[];
    const events = rows.map((row) => {
      const { seq: _seq, sum: _sum, detail, ...event } = this.#checked(row);
      return detail === '' ? event : { ...event, detail };
    });
    return { events, last: rows.at(-1)?.seq ?? after };
  }

  async begin(key: string): Promise<number> {
    return this.#transaction(() => {
      const at = now();
      this.#prepare('INSERT INTO executions (key, at, sum) VALUES (?, ?, ?)').run(key, at, checksumOf(key, at));
      return this.#begun(key);
    });
  }

  async begun(key: string): Promise<number> {
    return this.#begun(key);
  }

  #begun(key: string): number {
    const rows = this.#prepare('SELECT seq, key, at, sum FROM executions WHERE key = ?').all(
      key,
    ) as unknown as ExecutionRow[];
    return rows.map((row) => this.#checked(row)).length;
  }

  async repeats(): Promise<Record<string, number>> {
    const seen = new Set<string>();
    const repeated: Record<string, number> = {};
    for (const { key } of await this.executions(0)) {
      const kind = key.slice(0, key.indexOf(':'));
      repeated[kind] = (repeated[kind] ?? 0) + Number(seen.has(key));
      seen.add(key);
    }
    return repeated;
  }

  async executions(after: number): Promise<Execution[]> {
    const rows = this.#prepare('SELECT seq, key, at, sum FROM executions WHERE seq > ? ORDER BY seq').all(
      after,
    ) as unknown as ExecutionRow[];
    return rows.map((row) => {
      const { sum: _sum, ...execution } = this.#checked(row);
      return execution;
    });
  }

  async acquireLease(lease: Lease, limit: number): Promise<Lease | undefined> {
    const isTaken = await this.acquireLeases([lease], { leases: limit, memoryMiB: Number.MAX_SAFE_INTEGER });
    return isTaken ? lease : undefined;
  }

  async acquireLeases(leases: readonly Lease[], room: LeaseRoom): Promise<boolean> {
    const [first] = leases;
    if (first === undefined) return true;
    const ids = JSON.stringify(leases.map(({ id }) => id));
    const claimed = leases.reduce((sum, { memoryMiB = 0 }) => sum + memoryMiB, 0);
    return this.#transaction(() => {
      const { n, mib } = this.#prepare(
        `SELECT count(*) AS n, total(memory_mib) AS mib FROM leases
         WHERE kind = ? AND host = ? AND expires_at > ? AND id NOT IN (SELECT value FROM json_each(?))`,
      ).get(first.kind, first.host, Date.now(), ids) as { n: number; mib: number };
      if (n + leases.length > room.leases || mib + claimed > room.memoryMiB) return false;
      for (const lease of leases)
        this.#prepare(
          `INSERT INTO leases (id, kind, owner, host, expires_at, detail, memory_mib) VALUES (?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, host = excluded.host, expires_at = excluded.expires_at,
             detail = excluded.detail, memory_mib = max(excluded.memory_mib, leases.memory_mib)`,
        ).run(lease.id, lease.kind, lease.owner, lease.host, lease.expiresAt, lease.detail, lease.memoryMiB ?? 0);
      return true;
    });
  }

  async releaseLease(id: string): Promise<void> {
    this.#prepare('DELETE FROM leases WHERE id = ?').run(id);
  }

  async leases(kind: string): Promise<Lease[]> {
    const rows = this.#prepare(
      'SELECT id, kind, owner, host, expires_at, detail, memory_mib FROM leases WHERE kind = ? ORDER BY id',
    ).all(kind) as unknown as LeaseRow[];
    return rows.map(({ expires_at: expiresAt, memory_mib: memoryMiB, ...lease }) => ({
      ...lease,
      expiresAt,
      ...(memoryMiB > 0 && { memoryMiB }),
    }));
  }

  async changes(cursor: string | undefined, limit: number, kinds: readonly string[]): Promise<Changes | undefined> {
    return changesIn((sql) => this.#prepare(sql), cursor, limit, kinds);
  }

  async reportWorker(report: WorkerReport): Promise<void> {
    const { id, seen } = report;
    const old = new Date(Date.parse(seen) - FORGOTTEN_AFTER_MS).toISOString();
    this.#transaction(() => {
      this.#prepare('INSERT OR REPLACE INTO workers (id, seen, report) VALUES (?, ?, ?)').run(
        id,
        seen,
        JSON.stringify(report),
      );
      this.#prepare('DELETE FROM workers WHERE seen < ?').run(old);
    });
  }

  async removeWorker(id: string): Promise<void> {
    this.#prepare('DELETE FROM workers WHERE id = ?').run(id);
  }

  async workers(): Promise<WorkerReport[]> {
    const rows = this.#prepare('SELECT report FROM workers ORDER BY id').all();
    return rows.map(({ report }) => JSON.parse(String(report)) as WorkerReport);
  }

  async close(): Promise<void> {
    this.#statements.clear();
    this.#db.close();
  }
}

/**
 * Opens the store in `dir`, or creates it. With `patience`, its calls wait while the disk is full or read-only or the
 * store is locked, without blocking the event loop.
 * Errors: `StoreFormatUnknown`. Here and in every call: `StoreFull`, `StoreReadOnly`, `StoreBusy`, `StoreCorrupt`, and
 * others of SQLite.
 */
export function openSqliteStore(dir: string, patience?: Patience): Store {
  try {
    const busyTimeoutMs = patience === undefined ? BUSY_TIMEOUT_MS : PATIENT_BUSY_TIMEOUT_MS;
    return namedStore(new SqliteStore(dir, busyTimeoutMs), dir, patience);
  } catch (error) {
    throw classifyDiskError(error, dir);
  }
}
