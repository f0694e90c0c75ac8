/**
 * The rows of rollouts while changes are applied: each is read once and written once, and only the columns that
 * changed, since every index of a written column is written too.
 */

import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';

/** A row of the table `rollouts`; the columns are those of its schema. */
export interface RolloutState {
  readonly rollout: string;
  run: string;
  readonly batch: string;
  step: number | null;
  task: string | null;
  source: string | null;
  attempt: number;
  turns: number;
  restores: number;
  status: string;
  reward: number | null;
  passed: number | null;
  finish: string | null;
  failure: string | null;
  first_at: string | null;
  dispatched_at: string | null;
  started_at: string | null;
  graded_at: string | null;
  ended: string | null;
  ended_at: string | null;
  detail: string | null;
  /** 1: another end was reported after the first. */
  again: number;
  /** When its sandbox was ready, until it is graded or ends. In seconds. */
  begun: number | null;
}

const NEW: Omit<RolloutState, 'rollout' | 'run' | 'batch' | 'step' | 'task' | 'source'> = {
  attempt: 1,
  turns: 0,
  restores: 0,
  status: 'running',
  reward: null,
  passed: null,
  finish: null,
  failure: null,
  first_at: null,
  dispatched_at: null,
  started_at: null,
  graded_at: null,
  ended: null,
  ended_at: null,
  detail: null,
  again: 0,
  begun: null,
};

interface Entry {
  readonly row: RolloutState;
  /** As it is in the table. `undefined`: it is not there yet. */
  readonly before: Readonly<Record<string, unknown>> | undefined;
}

export class RolloutRows {
  readonly #db: DatabaseSync;
  readonly #entries = new Map<string, Entry>();
  readonly #statements = new Map<string, StatementSync>();

  constructor(db: DatabaseSync) {
    this.#db = db;
  }

  /** The rollout's row, to be changed; `make` gives what is known of a new one. */
  of(rollout: string, make: () => Pick<RolloutState, 'run' | 'batch' | 'step' | 'task' | 'source'>): RolloutState {
    const known = this.#entries.get(rollout);
    if (known) return known.row;
    const before = this.#prepare('SELECT * FROM rollouts WHERE rollout = ?').get(rollout);
    const row = before ? ({ ...before } as unknown as RolloutState) : { rollout, ...NEW, ...make() };
    this.#entries.set(rollout, { row, before });
    return row;
  }

  /** Forgets changes that were not written: their transaction failed. */
  clear(): void {
    this.#entries.clear();
  }

  /** Writes all changes. Rows that were returned earlier must not be changed any more. */
  flush(): void {
    for (const { row, before } of this.#entries.values()) {
      const columns = Object.entries(row) as ReadonlyArray<readonly [string, SQLInputValue]>;
      const changed = before === undefined ? columns : columns.filter(([name, value]) => before[name] !== value);
      const names = changed.map(([name]) => name);
      const values = changed.map(([, value]) => value);
      if (before === undefined)
        this.#prepare(`INSERT INTO rollouts (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`).run(
          ...values,
        );
      else if (names.length > 0)
        this.#prepare(`UPDATE rollouts SET ${names.map((name) => `${name} = ?`).join(', ')} WHERE rollout = ?`).run(
          ...values,
          row.rollout,
        );
    }
    this.clear();
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known) return known;
    const statement = this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }
}
