/** Sessions, models, samplers and checkpoints of the journal's file. Everything here is synchronous. */

import type { TinkerCheckpoint, TinkerCounts, TinkerModel, TinkerSampler, TinkerSession } from './journal.ts';
import { sumOf } from './codec.ts';
import type { JournalDb } from './journal-db.ts';

type Row = Readonly<Record<string, unknown>>;
type Page = { readonly limit: number; readonly offset: number };

/** Reads a record's JSON, without the columns that change by themselves. */
function read<T>(db: JournalDb, key: string, row: Row): T {
  db.check(key, [key], row['value'], row['sum']);
  return JSON.parse(String(row['value'])) as T;
}

const written = (key: string, record: object) => {
  const value = JSON.stringify(record);
  return { value, sum: sumOf([key], value) };
};

export class JournalRecords {
  readonly #db: JournalDb;

  constructor(db: JournalDb) {
    this.#db = db;
  }

  putBase(name: string, dir: string): void {
    this.#db.sql('INSERT OR REPLACE INTO bases (name, dir) VALUES (?, ?)').run(name, dir);
  }

  baseDir(name: string): string | undefined {
    const row = this.#db.sql('SELECT dir FROM bases WHERE name = ?').get(name);
    return row === undefined ? undefined : String(row['dir']);
  }

  putSession(session: TinkerSession): void {
    const { seenAt, ...rest } = session;
    const { value, sum } = written(`session ${session.id}`, rest);
    this.#db
      .sql('INSERT OR IGNORE INTO sessions (id, tenant, seen, sum, value) VALUES (?, ?, ?, ?, ?)')
      .run(session.id, session.tenant, seenAt, sum, value);
  }

  #session(row: Row): TinkerSession {
    const rest = read<Omit<TinkerSession, 'seenAt'>>(this.#db, `session ${String(row['id'])}`, row);
    return { ...rest, seenAt: String(row['seen']) };
  }

  session(id: string): TinkerSession | undefined {
    const row = this.#db.sql('SELECT id, seen, sum, value FROM sessions WHERE id = ?').get(id);
    return row && this.#session(row);
  }

  /** Those of clients, the newest first. */
  sessions(tenant: string, { limit, offset }: Page): TinkerSession[] {
    return this.#db
      .sql(
        `SELECT id, seen, sum, value FROM sessions WHERE tenant = ? AND id NOT LIKE 'direct-%'
         ORDER BY seq DESC LIMIT ? OFFSET ?`,
      )
      .all(tenant, limit, offset)
      .map((row) => this.#session(row));
  }

  seen(id: string, at: string): void {
    this.#db.sql('UPDATE sessions SET seen = max(seen, ?) WHERE id = ?').run(at, id);
  }

  /** `seenAt`: of a session that ends by itself, in milliseconds; absent: it stays as it was. */
  finishSession(id: string, finished: NonNullable<TinkerSession['finished']>, seenAt?: number): void {
    const session = this.session(id);
    if (session === undefined || session.finished !== undefined) return;
    const { seenAt: seenBefore, ...rest } = session;
    const { value, sum } = written(`session ${id}`, { ...rest, finished });
    const seen = seenAt === undefined ? seenBefore : new Date(seenAt).toISOString();
    this.#db.sql('UPDATE sessions SET value = ?, sum = ?, seen = ? WHERE id = ?').run(value, sum, seen, id);
  }

  /** With its models and samplers. */
  deleteSession(id: string): void {
    const lanes = this.#db
      .sql(
        `SELECT id FROM models WHERE id > ? || ':train:' AND id < ? || ':train;'
         UNION ALL SELECT id FROM samplers WHERE session = ?`,
      )
      .all(id, id, id);
    for (const { id: lane } of lanes) this.#db.sql('DELETE FROM lanes WHERE lane = ?').run(String(lane));
    this.#db.sql(`DELETE FROM models WHERE id > ? || ':train:' AND id < ? || ':train;'`).run(id, id);
    this.#db.sql('DELETE FROM samplers WHERE session = ?').run(id);
    this.#db.sql('DELETE FROM sessions WHERE id = ?').run(id);
  }

  putModel(model: TinkerModel): TinkerModel {
    const { usedAt, ...rest } = model;
    const { value, sum } = written(`model ${model.id}`, rest);
    this.#db
      .sql('INSERT OR IGNORE INTO models (id, tenant, base, used, sum, value) VALUES (?, ?, ?, ?, ?, ?)')
      .run(model.id, model.tenant, model.baseModel, usedAt, sum, value);
    return this.model(model.id) ?? model;
  }

  #model(row: Row): TinkerModel {
    const rest = read<Omit<TinkerModel, 'usedAt'>>(this.#db, `model ${String(row['id'])}`, row);
    return { ...rest, usedAt: String(row['used']) };
  }

  model(id: string): TinkerModel | undefined {
    const row = this.#db.sql('SELECT id, used, sum, value FROM models WHERE id = ?').get(id);
    return row && this.#model(row);
  }

  models(tenant: string): TinkerModel[] {
    return this.#db
      .sql('SELECT id, used, sum, value FROM models WHERE tenant = ? ORDER BY seq')
      .all(tenant)
      .map((row) => this.#model(row));
  }

  putSampler(sampler: TinkerSampler): TinkerSampler {
    const { value, sum } = written(`sampler ${sampler.id}`, sampler);
    this.#db
      .sql('INSERT OR IGNORE INTO samplers (id, session, base, path, sum, value) VALUES (?, ?, ?, ?, ?, ?)')
      .run(sampler.id, sampler.session, sampler.baseModel, sampler.path ?? null, sum, value);
    return this.sampler(sampler.id) ?? sampler;
  }

  sampler(id: string): TinkerSampler | undefined {
    const row = this.#db.sql('SELECT sum, value FROM samplers WHERE id = ?').get(id);
    return row && read<TinkerSampler>(this.#db, `sampler ${id}`, row);
  }

  samplers(session: string): TinkerSampler[] {
    return this.#db
      .sql('SELECT id, sum, value FROM samplers WHERE session = ? ORDER BY seq')
      .all(session)
      .map((row) => read<TinkerSampler>(this.#db, `sampler ${String(row['id'])}`, row));
  }

  /** One that has expired is there no more. */
  checkpoint(path: string, now = new Date().toISOString()): TinkerCheckpoint | undefined {
    const row = this.#db
      .sql('SELECT sum, value FROM checkpoints WHERE path = ? AND (expires IS NULL OR expires > ?)')
      .get(path, now);
    return row && read<TinkerCheckpoint>(this.#db, `checkpoint ${path}`, row);
  }

  checkpoints(tenant: string, run: string | undefined, now = new Date().toISOString()): TinkerCheckpoint[] {
    return this.#db
      .sql(
        `SELECT path, sum, value FROM checkpoints
         WHERE tenant = ? AND run = coalesce(?, run) AND (expires IS NULL OR expires > ?) ORDER BY seq`,
      )
      .all(tenant, run ?? null, now)
      .map((row) => read<TinkerCheckpoint>(this.#db, `checkpoint ${String(row['path'])}`, row));
  }

  /** In place of one with its path, whose directory is removed later. */
  putCheckpoint(checkpoint: TinkerCheckpoint): void {
    this.deleteCheckpoint(checkpoint.path);
    const { path, tenant, run, dir, bytes, expiresAt } = checkpoint;
    const { value, sum } = written(`checkpoint ${path}`, checkpoint);
    this.#db
      .sql(
        'INSERT INTO checkpoints (path, tenant, run, dir, bytes, expires, sum, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
      )
      .run(path, tenant, run, dir, bytes, expiresAt ?? null, sum, value);
  }

  deleteCheckpoint(path: string): boolean {
    const row = this.#db.sql('DELETE FROM checkpoints WHERE path = ? RETURNING dir').get(path);
    if (row === undefined) return false;
    this.discard(String(row['dir']));
    return true;
  }

  /** The directory is removed when nothing reads it. */
  discard(dir: string): void {
    this.#db.sql('INSERT OR IGNORE INTO garbage (dir, at) VALUES (?, ?)').run(dir, Date.now());
  }

  setCheckpoint(path: string, change: { readonly expiresAt?: string | null; readonly public?: boolean }): boolean {
    const known = this.checkpoint(path);
    if (known === undefined) return false;
    const { expiresAt: before, ...rest } = known;
    const expiresAt = change.expiresAt === undefined ? before : (change.expiresAt ?? undefined);
    const next = { ...rest, public: change.public ?? known.public, ...(expiresAt === undefined ? {} : { expiresAt }) };
    const { value, sum } = written(`checkpoint ${path}`, next);
    this.#db
      .sql('UPDATE checkpoints SET value = ?, sum = ?, expires = ? WHERE path = ?')
      .run(value, sum, expiresAt ?? null, path);
    return true;
  }

  counts(tenant: string): TinkerCounts {
    const one = (sql: string) => this.#db.sql(sql).get(tenant) as { n: number; bytes: number };
    const waitingOf = (sampling: 0 | 1) =>
      one(
        `SELECT count(*) AS n, total(bytes) AS bytes FROM operations
         WHERE tenant = ? AND finished = 0 AND sampling = ${sampling}`,
      );
    const [waiting, samples] = [waitingOf(0), waitingOf(1)];
    const sessions = one(
      `SELECT count(*) AS n, 0 AS bytes FROM sessions
       WHERE tenant = ? AND id NOT LIKE 'direct-%'
         AND iif(json_valid(value), json_extract(value, '$.finished'), NULL) IS NULL`,
    );
    const saved = one('SELECT count(*) AS n, total(bytes) AS bytes FROM checkpoints WHERE tenant = ?');
    const models = one(
      `SELECT count(*) AS n, 0 AS bytes FROM models WHERE tenant = ?
         AND NOT EXISTS (SELECT 1 FROM lanes WHERE lane = models.id AND ended IS NOT NULL)
         AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = json_extract(models.value, '$.session')
           AND json_extract(sessions.value, '$.finished') IS NOT NULL)`,
    );
    return {
      waitingOperations: waiting.n,
      waitingBytes: waiting.bytes,
      waitingSamples: samples.n,
      waitingSampleBytes: samples.bytes,
      sessions: sessions.n,
      models: models.n,
      checkpoints: saved.n,
      checkpointBytes: saved.bytes,
    };
  }
}
