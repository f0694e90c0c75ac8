/**
 * The read model of a store: indices for lists and reports, in a SQLite file of their own. It follows from the store's
 * events, records and journal. Readers bring it up to date; writers of the store do nothing for it. A missing
 * or damaged file is made again, and where no file can be written the model is in memory: it never fails a reader.
 */

import { mkdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as otherWork } from 'node:timers/promises';
import type { ObjectRef } from '../../protocol/stages.ts';
import type { TaskCatalog } from '../../protocol/task-key.ts';
import { classifyDiskError, StoreCorrupt } from '../../store/disk-errors.ts';
import type { DamagedChange, Store } from '../../store/store.ts';
import type { Tallies, Tally } from '../run-tally.ts';
import { catalogsIn, KINDS, Projection } from './projection.ts';
import {
  type CallRow,
  callsIn,
  damagedIn,
  damagedLists,
  KnownGroups,
  type RolloutFilter,
  type RolloutRow,
  rolloutsIn,
  type RunRow,
  runsIn,
  tallyIn,
} from './queries.ts';
import { hasTables, makeTables } from './tables.ts';

/** Rows of each kind in one transaction: other readers wait for it, and so does this process. */
const PAGE = 1_000;
const BUSY_TIMEOUT_MS = 5_000;

/** The model's own file could not be used; its cause says why. */
class ModelBroken extends Error {
  override readonly name = 'ModelBroken';
}

interface Opened {
  readonly db: DatabaseSync;
  readonly projection: Projection;
}

/** Errors of all methods: those of the store. */
export class ReadModel implements Tallies {
  readonly #store: Store;
  /** `undefined`: in memory. */
  #file: string | undefined;
  #opened: Opened | undefined;
  #refreshing: Promise<unknown> = Promise.resolve();
  #isRemade = false;
  readonly #groups = new KnownGroups();
  readonly #catalogs = new Map<ObjectRef, readonly string[]>();

  readonly #page: number;

  /** `file`: where it is kept; without it, in memory. `page`: for tests. The caller closes `store`. */
  constructor(store: Store, file?: string, page = PAGE) {
    this.#store = store;
    this.#file = file;
    this.#page = page;
  }

  /** Applies what was written to the store since the last time, in this process or another. */
  refresh(): Promise<void> {
    return this.#with(() => undefined);
  }

  /** Runs and evals, the oldest first. Errors: `StoreCorrupt` if a record of one of them is damaged. */
  runs(): Promise<RunRow[]> {
    return this.#with((db) => {
      refuse(damagedLists(db));
      return runsIn(db);
    });
  }

  /** Errors: `StoreCorrupt` if an event or a record of the filter's run is damaged. */
  rollouts(filter: RolloutFilter): Promise<RolloutRow[]> {
    return this.#with((db) => {
      if (filter.run !== undefined) refuse(damagedIn(db, filter.run));
      return rolloutsIn(db, filter);
    });
  }

  /** The model calls and tool calls of a rollout, in order. Empty if they were pruned. */
  calls(rollout: string): Promise<CallRow[]> {
    return this.#with((db) => callsIn(db, rollout));
  }

  /** Errors: `StoreCorrupt` if an event or a record of the run is damaged. */
  of(run: string): Promise<Tally> {
    return this.#with((db) => {
      refuse(damagedIn(db, run));
      return tallyIn(db, run, this.#groups);
    });
  }

  close(): void {
    this.#opened?.db.close();
    this.#opened = undefined;
  }

  /** Brings the model up to date, and reads from it. One call of this process after the other. */
  #with<T>(read: (db: DatabaseSync) => T): Promise<T> {
    const result = this.#refreshing.catch(() => undefined).then(() => this.#attempt(read));
    this.#refreshing = result;
    return result;
  }

  /** Makes the model again if its file is damaged, then in memory: each can fail once. */
  async #attempt<T>(read: (db: DatabaseSync) => T): Promise<T> {
    for (;;) {
      try {
        const opened = this.#own(() => (this.#opened ??= this.#open()));
        await this.#catchUp(opened);
        return this.#own(() => read(opened.db));
      } catch (error) {
        if (!(error instanceof ModelBroken) || this.#file === undefined) throw error;
        this.close();
        const file = this.#file;
        const isDamaged = classifyDiskError(error.cause, file) instanceof StoreCorrupt;
        // A disk that damages every new file is not written to again.
        if (!isDamaged || this.#isRemade || !removed(file)) this.#file = undefined;
        this.#isRemade = true;
      }
    }
  }

  /** Errors of SQLite in `body` are the model's, as `ModelBroken`. */
  #own<T>(body: () => T): T {
    try {
      return body();
    } catch (error) {
      const isOfFile = error instanceof Error && ('errcode' in error || 'syscall' in error);
      throw isOfFile ? new ModelBroken(error.message, { cause: error }) : error;
    }
  }

  #open(): Opened {
    if (this.#file !== undefined) mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
    const db = new DatabaseSync(this.#file ?? ':memory:', { timeout: BUSY_TIMEOUT_MS });
    try {
      // A loss of power may damage the file: then it is made again.
      db.exec('PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF');
      transaction(db, () => {
        // No change reports that a damaged row was repaired.
        if (!hasTables(db) || db.prepare('SELECT 1 FROM damaged').get() !== undefined) makeTables(db);
      });
    } catch (error) {
      db.close();
      throw error;
    }
    return { db, projection: new Projection(db) };
  }

  async #catchUp({ db, projection }: Opened): Promise<void> {
    for (;;) {
      const cursor = this.#own(() => cursorOf(db));
      const changes = await this.#store.changes(cursor, this.#page, KINDS);
      if (changes !== undefined && changes.cursor === cursor) return;
      const catalogs = changes === undefined ? [] : catalogsIn(changes);
      for (const ref of catalogs) await this.#load(ref);
      const isApplied = this.#own(() =>
        transaction(db, () => {
          // Another process may have applied these changes meanwhile.
          if (cursorOf(db) !== cursor) return false;
          if (changes === undefined) makeTables(db);
          else projection.apply(changes, (ref) => this.#catalogs.get(ref) ?? []);
          db.prepare('UPDATE state SET cursor = ?').run(changes?.cursor ?? null);
          return true;
        }),
      );
      if (isApplied && changes !== undefined && !changes.more) return;
      await otherWork();
    }
  }

  /** A damaged catalog leaves the sources of its tasks unknown. */
  async #load(ref: ObjectRef): Promise<void> {
    if (this.#catalogs.has(ref)) return;
    const bytes = await this.#store.getObject(ref).catch(() => undefined);
    const catalog = bytes && (JSON.parse(Buffer.from(bytes).toString()) as TaskCatalog);
    this.#catalogs.set(ref, catalog === undefined ? [] : Object.keys(catalog.sources));
  }
}

/** The model of a store for the stack in `home`, which need not exist. */
export function openReadModel(store: Store, home: string): ReadModel {
  return new ReadModel(store, join(home, 'read-model.sqlite'));
}

/** Nothing is reported without the rows that could not be read. Errors: `StoreCorrupt` if there are any. */
function refuse([first]: readonly DamagedChange[]): void {
  if (first === undefined) return;
  const problem = `the ${first.kind} ${first.key} is not what was written: its checksum differs`;
  throw new StoreCorrupt('', problem, { key: first.key });
}

function cursorOf(db: DatabaseSync): string | undefined {
  const text = db.prepare('SELECT cursor FROM state').get()?.['cursor'];
  return typeof text === 'string' ? text : undefined;
}

function transaction<T>(db: DatabaseSync, body: () => T): T {
  db.exec('BEGIN IMMEDIATE');
  try {
    const result = body();
    db.exec('COMMIT');
    return result;
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** False if the file cannot be removed. */
function removed(file: string): boolean {
  try {
    for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
    return true;
  } catch {
    return false;
  }
}
