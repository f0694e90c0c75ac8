/** Who holds a lane, what was begun under which hold, and the states of models. Everything here is synchronous. */

import { sumOf } from './codec.ts';
import type { JournalDb } from './journal-db.ts';
import type { JournalRecords } from './sqlite-records.ts';
import { type BegunWork, type LaneHold, LaneLost, type ModelState } from './work.ts';

export class JournalHolds {
  readonly #db: JournalDb;
  readonly #records: JournalRecords;

  constructor(db: JournalDb, records: JournalRecords) {
    this.#db = db;
    this.#records = records;
  }

  take(lane: string, owner: string, milliseconds: number): LaneHold {
    const row = this.#db
      .sql(
        `INSERT INTO lanes (lane, fence, owner, expires, moved) VALUES (?, 1, ?, ?, ?) ON CONFLICT (lane) DO UPDATE
         SET fence = fence + 1, owner = excluded.owner, expires = excluded.expires RETURNING fence`,
      )
      .get(lane, owner, Date.now() + milliseconds, Date.now());
    return { lane, fence: Number(row?.['fence']) };
  }

  /** Errors: `LaneLost`. */
  check({ lane, fence }: LaneHold): void {
    if (this.#db.sql('SELECT 1 FROM lanes WHERE lane = ? AND fence = ?').get(lane, fence) === undefined)
      throw new LaneLost(lane);
  }

  renew(hold: LaneHold, milliseconds: number): void {
    this.check(hold);
    this.#db.sql('UPDATE lanes SET expires = ? WHERE lane = ?').run(Date.now() + milliseconds, hold.lane);
  }

  release({ lane, fence }: LaneHold): void {
    this.#db.sql('UPDATE lanes SET expires = 0 WHERE lane = ? AND fence = ?').run(lane, fence);
  }

  isHeld(lane: string): boolean {
    return this.#db.sql('SELECT 1 FROM lanes WHERE lane = ? AND expires > ?').get(lane, Date.now()) !== undefined;
  }

  pinKind(lane: string, kind: string): string {
    const row = this.#db
      .sql(
        `INSERT INTO lanes (lane, kind, moved) VALUES (?, ?, ?) ON CONFLICT (lane) DO UPDATE
         SET kind = coalesce(kind, excluded.kind) RETURNING kind`,
      )
      .get(lane, kind, Date.now());
    return String(row?.['kind']);
  }

  /** Errors: `LaneLost`. */
  begin(hold: LaneHold, keys: readonly string[]): BegunWork[] {
    this.check(hold);
    const at = new Date().toISOString();
    return keys.map((key) => {
      const before = this.#db
        .sql(`SELECT count(*) AS n, count(end) AS failed FROM executions WHERE key = ?`)
        .get(key) as { n: number; failed: number };
      const { lastInsertRowid } = this.#db.sql('INSERT INTO executions (key, at) VALUES (?, ?)').run(key, at);
      return { execution: Number(lastInsertRowid), lost: before.n - before.failed, failed: before.failed };
    });
  }

  endExecution(execution: number, end: 'failed' | 'forgotten'): void {
    if (end === 'failed') this.#db.sql("UPDATE executions SET end = 'failed' WHERE seq = ?").run(execution);
    else this.#db.sql('DELETE FROM executions WHERE seq = ?').run(execution);
  }

  forgetExecutions(key: string): void {
    this.#db.sql('DELETE FROM executions WHERE key = ?').run(key);
  }

  state(model: string): ModelState | undefined {
    const row = this.#db.sql('SELECT through, dir, bytes, sha256, sum FROM states WHERE model = ?').get(model);
    if (row === undefined) return undefined;
    const { through, dir, bytes, sha256, sum } = row as unknown as Omit<ModelState, 'model'> & { sum: number };
    this.#db.check(`state of ${model}`, [model, through], `${dir}\0${bytes}\0${sha256}`, sum);
    return { model, through, dir, bytes, sha256 };
  }

  /** The directory of the one before is removed later. */
  putState({ model, through, dir, bytes, sha256 }: ModelState): void {
    const before = this.#db.sql('SELECT dir FROM states WHERE model = ?').get(model);
    if (before !== undefined && before['dir'] !== dir) this.#records.discard(String(before['dir']));
    this.#db
      .sql('INSERT OR REPLACE INTO states (model, through, dir, bytes, sha256, at, sum) VALUES (?, ?, ?, ?, ?, ?, ?)')
      .run(
        model,
        through,
        dir,
        bytes,
        sha256,
        new Date().toISOString(),
        sumOf([model, through], `${dir}\0${bytes}\0${sha256}`),
      );
  }

  ended(model: string): string | undefined {
    const row = this.#db.sql('SELECT ended FROM lanes WHERE lane = ?').get(model);
    return typeof row?.['ended'] === 'string' ? row['ended'] : undefined;
  }

  /** The model takes no more operations; its state is removed. */
  end(model: string, why: string): void {
    this.#db
      .sql(
        `INSERT INTO lanes (lane, moved, ended) VALUES (?, ?, ?) ON CONFLICT (lane) DO UPDATE
         SET ended = coalesce(ended, excluded.ended)`,
      )
      .run(model, Date.now(), why);
    const row = this.#db.sql('DELETE FROM states WHERE model = ? RETURNING dir').get(model);
    if (row !== undefined) this.#records.discard(String(row['dir']));
  }
}
