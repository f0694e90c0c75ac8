/**
 * The store in one SQLite file, shared by every process of a host: each method is one transaction, so that a reader
 * sees a record whole or not at all, and a killed process leaves none half-written.
 */

import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { named, StoreCorrupt } from './disk-errors.ts';
import { namedStore } from './named-store.ts';
import type { Patience } from './patience.ts';
import type { Execution, Lease, ObjectRef, RolloutEvent, RolloutEventName, Store } from './store.ts';

const SCHEMA = `
CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (ref TEXT PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, rollout TEXT NOT NULL, attempt INTEGER NOT NULL,
  event TEXT NOT NULL, at TEXT NOT NULL, detail TEXT NOT NULL DEFAULT '',
  UNIQUE (rollout, attempt, event, detail));
CREATE INDEX IF NOT EXISTS events_by_run ON events (run, seq);
CREATE TABLE IF NOT EXISTS executions (seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS executions_by_key ON executions (key);
CREATE TABLE IF NOT EXISTS leases (
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, host TEXT NOT NULL, expires_at INTEGER NOT NULL,
  detail TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS leases_by_kind ON leases (kind, host, expires_at);
`;

/**
 * How long a writer waits for another process's transaction before it fails as `StoreBusy`; milliseconds. The whole
 * process stands still for so long, so that those that try again do not wait as long at once.
 */
const BUSY_TIMEOUT_MS = 5_000;
const PATIENT_BUSY_TIMEOUT_MS = 200;

/** The first key after every key that begins with `prefix`, in byte order. */
function afterPrefix(prefix: string): string {
  return `${prefix}\u{10FFFF}`;
}

function now(): string {
  return new Date().toISOString();
}

interface EventRow {
  run: string;
  rollout: string;
  attempt: number;
  event: RolloutEventName;
  at: string;
  detail: string;
}

interface LeaseRow {
  id: string;
  kind: string;
  owner: string;
  host: string;
  expires_at: number;
  detail: string;
}

class SqliteStore implements Store {
  readonly #dir: string;
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  /** Nobody tries again to open it, so that opening waits as long as ever. */
  constructor(dir: string, busyTimeoutMs: number) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true });
    this.#db = new DatabaseSync(join(dir, 'store.sqlite'), { timeout: BUSY_TIMEOUT_MS });
    this.#db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;');
    this.#db.exec(SCHEMA);
    this.#db.exec(`PRAGMA busy_timeout=${busyTimeoutMs}`);
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const statement = this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  #parsed<T>(key: string, json: string): T {
    try {
      return JSON.parse(json) as T;
    } catch (error) {
      throw new StoreCorrupt(this.#dir, `the record ${key} is not JSON`, { cause: error });
    }
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

  /** False where something is there already. */
  #insert(key: string, value: unknown): boolean {
    const json = JSON.stringify(value);
    if (json === undefined) throw new TypeError(`Result ${key} is undefined; give null instead`);
    const { changes } = this.#prepare('INSERT OR IGNORE INTO results (key, value) VALUES (?, ?)').run(key, json);
    return changes === 1;
  }

  async #kept<T>(key: string): Promise<T> {
    const kept = await this.get<T>(key);
    if (kept === undefined) throw new Error(`Result ${key} vanished from the store`);
    return kept;
  }

  async get<T>(key: string): Promise<T | undefined> {
    const row = this.#prepare('SELECT value FROM results WHERE key = ?').get(key) as { value: string } | undefined;
    return row === undefined ? undefined : this.#parsed<T>(key, row.value);
  }

  async list<T>(prefix: string): Promise<Array<{ key: string; value: T }>> {
    const rows = this.#prepare('SELECT key, value FROM results WHERE key >= ? AND key < ? ORDER BY key').all(
      prefix,
      afterPrefix(prefix),
    ) as unknown as Array<{ key: string; value: string }>;
    return rows.map(({ key, value }) => ({ key, value: this.#parsed<T>(key, value) }));
  }

  async putObject(bytes: Uint8Array): Promise<ObjectRef> {
    return this.#insertObject(bytes);
  }

  #insertObject(bytes: Uint8Array): ObjectRef {
    const ref: ObjectRef = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    this.#prepare('INSERT OR IGNORE INTO objects (ref, bytes) VALUES (?, ?)').run(ref, bytes);
    return ref;
  }

  async putOnceWithObject<T>(key: string, bytes: Uint8Array, valueOf: (ref: ObjectRef) => T): Promise<T> {
    const put = this.#transaction(() => {
      const value = valueOf(this.#insertObject(bytes));
      return { value, isNew: this.#insert(key, value) };
    });
    return put.isNew ? put.value : this.#kept<T>(key);
  }

  async getObject(ref: ObjectRef): Promise<Uint8Array> {
    const row = this.#prepare('SELECT bytes FROM objects WHERE ref = ?').get(ref) as { bytes: Uint8Array } | undefined;
    if (!row) throw new Error(`Object ${ref} is not in the store`);
    const actual = `sha256:${createHash('sha256').update(row.bytes).digest('hex')}`;
    if (actual !== ref) throw new StoreCorrupt(this.#dir, `object ${ref} is damaged: its bytes hash to ${actual}`);
    return row.bytes;
  }

  async append(events: readonly RolloutEvent[]): Promise<void> {
    const insert = this.#prepare(
      'INSERT OR IGNORE INTO events (run, rollout, attempt, event, at, detail) VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.#transaction(() => {
      for (const e of events) insert.run(e.run, e.rollout, e.attempt, e.event, e.at, e.detail ?? '');
    });
  }

  async events(run: string): Promise<RolloutEvent[]> {
    const rows = this.#prepare(
      'SELECT run, rollout, attempt, event, at, detail FROM events WHERE run = ? ORDER BY seq',
    ).all(run) as unknown as EventRow[];
    return rows.map(({ detail, ...event }) => (detail === '' ? event : { ...event, detail }));
  }

  async eventsSince(run: string, after: number): Promise<{ events: RolloutEvent[]; last: number }> {
    const rows = this.#prepare(
      'SELECT seq, run, rollout, attempt, event, at, detail FROM events WHERE run = ? AND seq > ? ORDER BY seq',
    ).all(run, after) as unknown as Array<EventRow & { seq: number }>;
    const events = rows.map(({ seq: _seq, detail, ...event }) => (detail === '' ? event : { ...event, detail }));
    return { events, last: rows.at(-1)?.seq ?? after };
  }

  async begin(key: string): Promise<number> {
    return this.#transaction(() => {
      this.#prepare('INSERT INTO executions (key, at) VALUES (?, ?)').run(key, now());
      return this.#begun(key);
    });
  }

  async begun(key: string): Promise<number> {
    return this.#begun(key);
  }

  #begun(key: string): number {
    return (this.#prepare('SELECT count(*) AS n FROM executions WHERE key = ?').get(key) as { n: number }).n;
  }

  async repeats(): Promise<Record<string, number>> {
    const rows = this.#prepare(
      `SELECT substr(key, 1, instr(key, ':') - 1) AS kind, count(*) - count(DISTINCT key) AS repeated
       FROM executions GROUP BY kind ORDER BY kind`,
    ).all() as unknown as Array<{ kind: string; repeated: number }>;
    return Object.fromEntries(rows.map(({ kind, repeated }) => [kind, repeated]));
  }

  async executions(after: number): Promise<Execution[]> {
    return this.#prepare('SELECT seq, key, at FROM executions WHERE seq > ? ORDER BY seq').all(after) as unknown as Execution[];
  }

  async acquireLease(lease: Lease, limit: number): Promise<Lease | undefined> {
    return this.#transaction(() => {
      const { n } = this.#prepare(
        'SELECT count(*) AS n FROM leases WHERE kind = ? AND host = ? AND expires_at > ? AND id <> ?',
      ).get(lease.kind, lease.host, Date.now(), lease.id) as { n: number };
      if (n >= limit) return undefined;
      this.#prepare(
        `INSERT INTO leases (id, kind, owner, host, expires_at, detail) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, host = excluded.host,
           expires_at = excluded.expires_at, detail = excluded.detail`,
      ).run(lease.id, lease.kind, lease.owner, lease.host, lease.expiresAt, lease.detail);
      return lease;
    });
  }

  async releaseLease(id: string): Promise<void> {
    this.#prepare('DELETE FROM leases WHERE id = ?').run(id);
  }

  async leases(kind: string): Promise<Lease[]> {
    const rows = this.#prepare(
      'SELECT id, kind, owner, host, expires_at, detail FROM leases WHERE kind = ? ORDER BY id',
    ).all(kind) as unknown as LeaseRow[];
    return rows.map(({ expires_at: expiresAt, ...lease }) => ({ ...lease, expiresAt }));
  }

  async close(): Promise<void> {
    this.#statements.clear();
    this.#db.close();
  }
}

/**
 * Opens (or makes) the store in `dir`. With `patience`, its calls wait for a disk that is full or read-only, and for a
 * lock with the event loop free in between.
 * Errors, here and of every call: `StoreFull`, `StoreReadOnly`, `StoreBusy`, `StoreCorrupt`, and others of SQLite.
 */
export function openSqliteStore(dir: string, patience?: Patience): Store {
  try {
    const busyTimeoutMs = patience === undefined ? BUSY_TIMEOUT_MS : PATIENT_BUSY_TIMEOUT_MS;
    return namedStore(new SqliteStore(dir, busyTimeoutMs), dir, patience);
  } catch (error) {
    throw named(error, dir);
  }
}
