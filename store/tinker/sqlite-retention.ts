/**
 * What the journal forgets, and when: bodies that no rebuild needs, results after a time, expired checkpoints, and
 * directories that nothing names. A future that waits is never forgotten; one that cannot move fails in the end.
 */

import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { laneName } from '../../protocol/tinker-lanes.ts';
import { StoreCorrupt } from '../disk-errors.ts';
import type { JournalDb } from './journal-db.ts';
import type { JournalHolds } from './sqlite-holds.ts';
import type { JournalOperations } from './sqlite-operations.ts';
import type { JournalRecords } from './sqlite-records.ts';

/** In milliseconds. */
export interface Retention {
  /** How long a result can be read. */
  readonly resultMs: number;
  /** How long the row of an operation, without its body, still recognises a repetition. */
  readonly rowMs: number;
  /** A model that was not used for so long is removed. */
  readonly modelMs: number;
  /** So is one of a finished session, which takes no more operations: its checkpoints stay. */
  readonly finishedModelMs: number;
  /** A session of which nothing was heard or asked for so long ends. */
  readonly silentMs: number;
  /** A finished session without checkpoints is forgotten after this time, with its models and samplers. */
  readonly sessionMs: number;
  /** A lane in which nothing finished for so long, although something waits: it fails. */
  readonly stalledMs: number;
  /** So does one that waits for a number which has not arrived. */
  readonly gapMs: number;
  /** A directory that nothing names is removed after this time: its writer may be about to name it. */
  readonly garbageMs: number;
  readonly orphanMs: number;
}

const [MINUTE, DAY] = [60_000, 24 * 3_600_000];

export const RETENTION: Retention = {
  resultMs: 2 * DAY,
  rowMs: 30 * DAY,
  modelMs: 30 * DAY,
  finishedModelMs: DAY,
  silentMs: DAY,
  sessionMs: 30 * DAY,
  stalledMs: DAY / 4,
  gapMs: 30 * MINUTE,
  garbageMs: MINUTE,
  orphanMs: DAY / 2,
};

const ORPHANS_MS = 60 * MINUTE;
/** After a server was down or asleep, it must listen for so long before a client's silence counts. */
const LISTENS_MS = 60 * MINUTE;

export interface StalledLane {
  readonly lane: string;
  readonly message: string;
}

/** The folders of directories in the journal's folder. */
export const CHECKPOINTS = 'checkpoints';
export const STATES = 'states';

export class JournalRetention {
  readonly #db: JournalDb;
  readonly #records: JournalRecords;
  readonly #operations: JournalOperations;
  readonly #holds: JournalHolds;
  readonly #retention: Retention;
  #orphansAt = -Infinity;
  #sessionsAt = -Infinity;
  #keptAt = -Infinity;
  /** Clients could be heard since then. */
  #listensSince = -Infinity;

  constructor(
    db: JournalDb,
    parts: { readonly records: JournalRecords; readonly operations: JournalOperations; readonly holds: JournalHolds },
    retention: Retention,
  ) {
    this.#db = db;
    this.#records = parts.records;
    this.#operations = parts.operations;
    this.#holds = parts.holds;
    this.#retention = retention;
  }

  /** One transaction. */
  forget(now: number): void {
    const before = (ms: number) => new Date(now - ms).toISOString();
    const { resultMs, rowMs, modelMs } = this.#retention;
    if (now - this.#keptAt > LISTENS_MS) this.#listensSince = now;
    this.#keptAt = now;
    const listens = now - this.#listensSince >= LISTENS_MS;
    const expired = this.#db.sql('SELECT path FROM checkpoints WHERE expires <= ?').all(new Date(now).toISOString());
    for (const { path } of expired) this.#records.deleteCheckpoint(String(path));
    const unused = this.#db
      .sql(
        `SELECT id FROM models WHERE used < ? AND NOT EXISTS (
           SELECT 1 FROM operations WHERE lane = models.id AND finished = 0)
         AND NOT EXISTS (SELECT 1 FROM lanes WHERE lane = models.id AND ended IS NOT NULL)`,
      )
      .all(before(modelMs));
    for (const { id } of listens ? unused : [])
      this.#holds.end(
        String(id),
        `the model was not used for ${Math.round(modelMs / DAY)} days: load a checkpoint of it`,
      );
    if (now - this.#sessionsAt >= MINUTE) this.#forgetSessions(now, listens);
    // A rebuild starts from the model's state, and needs what changed the model after it.
    this.#db
      .sql(
        `UPDATE operations INDEXED BY kept_bodies SET body = NULL WHERE finished = 1 AND body IS NOT NULL AND (
           kind NOT IN ('create_model', 'load_weights', 'pass', 'optim_step')
           OR number <= (SELECT through FROM states WHERE model = lane)
           OR EXISTS (SELECT 1 FROM lanes WHERE lanes.lane = operations.lane AND ended IS NOT NULL)
           OR EXISTS (SELECT 1 FROM results WHERE results.request = operations.request AND failed = 1))`,
      )
      .run();
    this.#db.sql('UPDATE results SET body = NULL WHERE body IS NOT NULL AND at < ?').run(before(resultMs));
    const deleted = this.#db
      .sql(
        `DELETE FROM results WHERE body IS NULL AND at < ? AND NOT EXISTS (
           SELECT 1 FROM operations WHERE operations.request = results.request AND body IS NOT NULL)
         RETURNING request`,
      )
      .all(before(rowMs));
    const operation = this.#db.sql('DELETE FROM operations WHERE request = ? AND finished = 1 AND body IS NULL');
    for (const { request } of deleted) operation.run(String(request));
  }

  /** Ends silent sessions, removes the states of models of finished ones, and forgets those that nothing needs. */
  #forgetSessions(now: number, listens: boolean): void {
    this.#sessionsAt = now;
    const before = (ms: number) => new Date(now - ms).toISOString();
    const { silentMs, finishedModelMs, sessionMs } = this.#retention;
    // A range of the index: ids of models begin with that of their session.
    const isOwn = `(models.id > sessions.id || ':train:' AND models.id < sessions.id || ':train;')`;
    // A damaged row is neither.
    const finished = `iif(json_valid(sessions.value), json_extract(sessions.value, '$.finished'), 0)`;
    const [isOpen, isFinished] = [`${finished} IS NULL`, `json_type(${finished}) = 'object'`];
    const waits = `EXISTS (SELECT 1 FROM operations WHERE finished = 0 AND (
      lane IN (SELECT id FROM models WHERE ${isOwn})
      OR lane IN (SELECT id FROM samplers WHERE session = sessions.id)))`;
    const silent = this.#db
      .sql(
        `SELECT id FROM sessions WHERE seen < ? AND ${isOpen} AND id NOT LIKE 'direct-%' AND NOT ${waits}
         AND NOT EXISTS (SELECT 1 FROM models WHERE ${isOwn} AND used >= ?)
         AND NOT EXISTS (SELECT 1 FROM operations WHERE at >= ? AND lane IN (
           SELECT id FROM samplers WHERE session = sessions.id))`,
      )
      .all(before(silentMs), before(silentMs), before(silentMs));
    const detail = `there was no heartbeat for ${Math.round(silentMs / 3_600_000)} hours`;
    // The model of a session that ends here stays as long as that of any other finished one.
    for (const { id } of listens ? silent : []) this.#endSession(String(id), { type: 'interrupted', detail }, now);
    const unused = this.#db
      .sql(
        `SELECT models.id FROM models JOIN sessions ON ${isOwn}
         WHERE used < ? AND seen < ? AND ${isFinished}
         AND NOT EXISTS (SELECT 1 FROM operations WHERE lane = models.id AND finished = 0)
         AND NOT EXISTS (SELECT 1 FROM lanes WHERE lane = models.id AND ended IS NOT NULL)`,
      )
      .all(before(finishedModelMs), before(finishedModelMs));
    for (const { id } of unused)
      this.#holds.end(String(id), 'its session is finished: load a checkpoint of it into a new model');
    const forgotten = this.#db
      .sql(
        `SELECT id FROM sessions WHERE seen < ? AND (${isFinished} OR id LIKE 'direct-%')
         AND NOT EXISTS (SELECT 1 FROM models JOIN checkpoints ON run = models.id WHERE ${isOwn})
         AND NOT EXISTS (SELECT 1 FROM operations WHERE lane IN (
           SELECT id FROM models WHERE ${isOwn} UNION ALL SELECT id FROM samplers WHERE session = sessions.id))
         AND NOT EXISTS (SELECT 1 FROM models JOIN states ON model = models.id WHERE ${isOwn})`,
      )
      .all(before(sessionMs));
    for (const { id } of forgotten) this.#records.deleteSession(String(id));
  }

  /** A damaged one stays as it is: it must not keep the others. */
  #endSession(id: string, reason: { readonly type: string; readonly detail: string }, now: number): void {
    try {
      this.#records.finishSession(id, reason, now);
    } catch (error) {
      if (!(error instanceof StoreCorrupt)) throw error;
    }
  }

  /** Lanes in which something waits and nothing moves. */
  stalled(now: number): StalledLane[] {
    const { stalledMs, gapMs } = this.#retention;
    const rows = this.#db
      .sql(
        `SELECT lane, next, moved FROM lanes
         WHERE lane IN (SELECT lane FROM operations WHERE finished = 0) AND moved < ?`,
      )
      .all(now - Math.min(stalledMs, gapMs)) as unknown as Array<{ lane: string; next: number; moved: number }>;
    return rows.flatMap(({ lane, next, moved }) => {
      const minutes = Math.round((now - moved) / MINUTE);
      if (!this.#operations.hasRunnable(lane))
        return now - moved < gapMs
          ? []
          : [
              {
                lane,
                message:
                  `request ${next} of ${lane} has not arrived within ${minutes} minutes, ` +
                  'and this one is behind it',
              },
            ];
      return now - moved < stalledMs
        ? []
        : [
            {
              lane,
              message:
                `nothing of ${lane} was done within ${minutes} minutes: ` +
                'no GPU worker takes its work (npx longhaul ps)',
            },
          ];
    });
  }

  /** Models and bases that have work and no holder. */
  unheld(): { readonly models: readonly string[]; readonly bases: readonly string[] } {
    const models = this.#operations.busyLanes('model', 10_000).filter((lane) => !this.#holds.isHeld(lane));
    const bases = this.#db
      .sql('SELECT DISTINCT base FROM operations WHERE finished = 0 AND sampling = 1')
      .all()
      .map(({ base }) => String(base))
      .filter((base) => !this.#holds.isHeld(laneName({ what: 'sampling', base })));
    return { models, bases };
  }

  /** Directories to remove now: nothing that waits reads them. */
  garbage(now: number): string[] {
    return this.#db
      .sql(
        `SELECT dir FROM garbage WHERE at <= ? AND NOT EXISTS (
           SELECT 1 FROM operations WHERE reads = garbage.dir AND finished = 0)`,
      )
      .all(now - this.#retention.garbageMs)
      .map(({ dir }) => String(dir));
  }

  isRemoved(dir: string): void {
    this.#db.sql('DELETE FROM garbage WHERE dir = ?').run(dir);
  }

  #isNamed(dir: string): boolean {
    const sql = `SELECT 1 FROM checkpoints WHERE dir = ? UNION ALL SELECT 1 FROM states WHERE dir = ?
      UNION ALL SELECT 1 FROM garbage WHERE dir = ?`;
    return this.#db.sql(sql).get(dir, dir, dir) !== undefined;
  }

  /** Directories of killed writers, which nothing names. Looked for once an hour: each directory is asked for. */
  async orphans(now: number): Promise<string[]> {
    if (now - this.#orphansAt < ORPHANS_MS) return [];
    this.#orphansAt = now;
    const found: string[] = [];
    for (const folder of [CHECKPOINTS, STATES]) {
      const place = join(this.#db.dir, folder);
      for (const name of await readdir(place).catch(() => [])) {
        const dir = join(place, name);
        const { mtimeMs } = await stat(dir).catch(() => ({ mtimeMs: now }));
        if (now - mtimeMs >= this.#retention.orphanMs && !this.#isNamed(dir)) found.push(dir);
      }
    }
    return found;
  }
}

/** Nothing if it is gone. */
export async function removeDir(dir: string): Promise<void> {
  await rm(dir, { recursive: true, force: true });
}
