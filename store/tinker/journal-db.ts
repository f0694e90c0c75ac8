/**
 * The journal's SQLite file, shared by the server and the workers. A write that has resolved survives a power cut. The
 * writes of one turn of the event loop are one transaction, each undone alone if it fails.
 */

import { randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { setImmediate as otherWork } from 'node:timers/promises';
import { classifyDiskError, isTransient, StoreCorrupt } from '../disk-errors.ts';
import { type Patience, retryWhileDiskUnavailable } from '../disk-patience.ts';
import { WriteQueue } from '../write-queue.ts';
import { sumOf } from './codec.ts';

const FILE = 'journal.sqlite';
/** Kept in the file's `user_version`. */
const FORMAT = 1;

/**
 * `value`: the record as JSON, with a checksum. Columns beside it are for lookups; `seen` and `used` are times alone.
 * `operations.finished`: 0 open, 1 has a result. `lanes.next`: a model's first unfinished number. `fence`: how often
 * the lane was taken; `expires`: until when its holder lives, in milliseconds.
 */
const SCHEMA = `
CREATE TABLE about (identity TEXT NOT NULL);
CREATE TABLE bases (name TEXT PRIMARY KEY, dir TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sessions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, seen TEXT NOT NULL,
  sum INTEGER NOT NULL, value TEXT NOT NULL);
CREATE INDEX sessions_by_tenant ON sessions (tenant, seq);
CREATE TABLE models (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, base TEXT NOT NULL,
  used TEXT NOT NULL, sum INTEGER NOT NULL, value TEXT NOT NULL);
CREATE INDEX models_by_tenant ON models (tenant, seq);
CREATE TABLE samplers (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, session TEXT NOT NULL, base TEXT NOT NULL, path TEXT,
  sum INTEGER NOT NULL, value TEXT NOT NULL);
CREATE INDEX samplers_by_session ON samplers (session, seq);
CREATE TABLE checkpoints (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, run TEXT NOT NULL,
  dir TEXT NOT NULL, bytes INTEGER NOT NULL, expires TEXT, sum INTEGER NOT NULL, value TEXT NOT NULL);
CREATE INDEX checkpoints_by_tenant ON checkpoints (tenant, run, seq);
CREATE TABLE operations (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, lane TEXT NOT NULL,
  number INTEGER NOT NULL, sampling INTEGER NOT NULL, base TEXT NOT NULL, digest TEXT NOT NULL, kind TEXT NOT NULL,
  path TEXT, reads TEXT, at TEXT NOT NULL, bytes INTEGER NOT NULL, finished INTEGER NOT NULL DEFAULT 0,
  sum INTEGER NOT NULL, body BLOB, UNIQUE (lane, number));
CREATE INDEX open_operations ON operations (sampling, lane, number) WHERE finished = 0;
CREATE INDEX open_of_tenant ON operations (tenant) WHERE finished = 0;
CREATE TABLE results (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, request TEXT NOT NULL UNIQUE, lane TEXT NOT NULL, at TEXT NOT NULL,
  failed INTEGER NOT NULL, sum INTEGER NOT NULL, body BLOB);
CREATE INDEX results_by_lane ON results (lane, seq);
CREATE INDEX kept_results ON results (at) WHERE body IS NOT NULL;
CREATE TABLE lanes (
  lane TEXT PRIMARY KEY, next INTEGER NOT NULL DEFAULT 0, moved INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '', expires INTEGER NOT NULL DEFAULT 0, kind TEXT,
  ended TEXT) WITHOUT ROWID;
CREATE TABLE states (
  model TEXT PRIMARY KEY, through INTEGER NOT NULL, dir TEXT NOT NULL, bytes INTEGER NOT NULL, sha256 TEXT NOT NULL,
  at TEXT NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE executions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, at TEXT NOT NULL, end TEXT);
CREATE INDEX executions_by_key ON executions (key);
CREATE TABLE garbage (dir TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;
`;

/**
 * Made whenever the file is opened, since earlier versions have none: what is asked often costs by what is open or
 * kept, not by what was ever done.
 */
const INDICES = `
CREATE INDEX IF NOT EXISTS open_of_lane ON operations (lane) WHERE finished = 0;
CREATE INDEX IF NOT EXISTS open_reads ON operations (reads) WHERE finished = 0;
CREATE INDEX IF NOT EXISTS kept_bodies ON operations (kind, lane, number) WHERE finished = 1 AND body IS NOT NULL;
CREATE INDEX IF NOT EXISTS old_results ON results (at) WHERE body IS NULL;
CREATE INDEX IF NOT EXISTS checkpoints_by_dir ON checkpoints (dir);
CREATE INDEX IF NOT EXISTS expiring_checkpoints ON checkpoints (expires) WHERE expires IS NOT NULL;
CREATE INDEX IF NOT EXISTS silent_sessions ON sessions (seen);
CREATE INDEX IF NOT EXISTS states_by_dir ON states (dir);
`;

/** How long a try blocks the process while another one writes. In milliseconds. */
const BUSY_TIMEOUT_MS = 50;
const OPENING_TIMEOUT_MS = 5_000;
/** The most writes of one transaction. */
const GROUP = 128;

interface Write {
  readonly work: () => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** The journal was made by a version of Longhaul with another format. */
export class JournalFormatUnknown extends Error {
  override readonly name = 'StoreFormatUnknown';

  constructor(dir: string, found: number) {
    super(
      `The Tinker journal at ${dir} has format ${found}, and this version of Longhaul reads only format ` +
        `${FORMAT}: use the version that made it, or move the folder away`,
    );
  }
}

export class JournalDb {
  readonly dir: string;
  readonly #db: DatabaseSync;
  readonly #patience: Patience | undefined;
  readonly #queue: WriteQueue;
  readonly #statements = new Map<string, StatementSync>();
  readonly #writes: Write[] = [];
  #committing = false;
  #afterWrite: () => void = () => undefined;

  constructor(dir: string, patience: Patience | undefined) {
    this.dir = dir;
    this.#patience = patience;
    this.#queue = new WriteQueue(dir);
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    this.#db = new DatabaseSync(join(dir, FILE), { timeout: OPENING_TIMEOUT_MS });
    this.#db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;');
    const isNew = () => this.#db.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
    if (isNew()) this.#transaction(() => isNew() && this.#create());
    const found = Number(this.#db.prepare('PRAGMA user_version').get()?.['user_version']);
    if (found !== FORMAT) throw new JournalFormatUnknown(dir, found);
    this.#db.exec(INDICES);
    this.#db.exec(`PRAGMA busy_timeout=${BUSY_TIMEOUT_MS}`);
  }

  #create(): void {
    this.#db.exec(SCHEMA);
    this.#db.prepare('INSERT INTO about (identity) VALUES (?)').run(randomUUID());
    this.#db.exec(`PRAGMA user_version=${FORMAT}`);
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

  /** Called after each transaction of this process. */
  set afterWrite(told: () => void) {
    this.#afterWrite = told;
  }

  sql(text: string): StatementSync {
    const known = this.#statements.get(text);
    if (known) return known;
    const statement = this.#db.prepare(text);
    this.#statements.set(text, statement);
    return statement;
  }

  /** Errors: those of `work`; disk errors by their class. */
  read<T>(work: () => T): Promise<T> {
    return retryWhileDiskUnavailable(this.dir, this.#patience, async () => work());
  }

  /**
   * Runs `work` in a transaction, perhaps with others'. It must be synchronous, and safe to repeat.
   * Errors: those of `work`, which is then undone; disk errors by their class.
   */
  write<T>(work: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#writes.push({ work, resolve, reject });
    if (!this.#committing) void this.#commitAll();
    return promise;
  }

  async #commitAll(): Promise<void> {
    this.#committing = true;
    await otherWork();
    while (this.#writes.length > 0) {
      const group = this.#writes.splice(0, GROUP);
      try {
        const settle = await retryWhileDiskUnavailable(this.dir, this.#patience, () =>
          this.#queue.enter(async () => this.#transaction(() => group.map((one) => this.#one(one)))),
        );
        this.#afterWrite();
        for (const told of settle) told();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    this.#committing = false;
  }

  /** Returns what tells the caller, after the transaction. Errors: those of the disk, which undo the transaction. */
  #one({ work, resolve, reject }: Write): () => void {
    this.#db.exec('SAVEPOINT one');
    try {
      const result = work();
      this.#db.exec('RELEASE one');
      return () => resolve(result as never);
    } catch (thrown) {
      const error = classifyDiskError(thrown, this.dir);
      if (isTransient(error)) throw error;
      this.#db.exec('ROLLBACK TO one; RELEASE one');
      return () => reject(error);
    }
  }

  /** Another process has written since the last call. */
  changedByOthers(): () => boolean {
    const version = this.#db.prepare('PRAGMA data_version');
    const now = () => Number(version.get()?.['data_version']);
    let last = now();
    return () => {
      const current = now();
      const changed = current !== last;
      last = current;
      return changed;
    };
  }

  /** Errors: `StoreCorrupt` if a row's checksum differs. */
  check(key: string, columns: ReadonlyArray<string | number>, body: unknown, sum: unknown): void {
    if ((typeof body === 'string' || body instanceof Uint8Array) && sumOf(columns, body) === sum) return;
    throw new StoreCorrupt(this.dir, `${key} of the Tinker journal is not what was written: its checksum differs`, {
      key,
    });
  }

  /** Everything that was written is in the file; open writes are rejected by SQLite. */
  close(): void {
    this.#statements.clear();
    this.#db.close();
  }
}
