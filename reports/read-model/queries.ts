/** What is read from the read model: lists of runs and rollouts by filters, calls, and a run's tally. */

import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import type { Accounting } from '../accounting.ts';
import type { RolloutEnd } from '../rollout-ends.ts';
import { judgeMetrics, type SpendingReport, together } from '../spending.ts';
import type { Tally } from '../run-tally.ts';
import { type GroupTimes, timesOfGroups } from '../trajectory-times.ts';
import type { FailureClass, FinishReason } from '../../protocol/finish-reason.ts';
import { afterPrefix } from '../../store/checked-rows.ts';
import type { DamagedChange } from '../../store/store.ts';

export interface RunRow {
  /** Of an eval: `eval/ID`. */
  readonly name: string;
  readonly kind: 'run' | 'eval';
  readonly status: 'running' | 'completed' | 'failed' | 'cancelled';
  /** ISO 8601. */
  readonly startedAt: string;
  readonly finishedAt: string | null;
}

/** Times are ISO 8601; what is not known yet is null. */
export interface RolloutRow {
  readonly rollout: string;
  readonly run: string;
  readonly batch: string;
  readonly step: number | null;
  readonly task: string | null;
  readonly source: string | null;
  readonly attempt: number;
  readonly turns: number;
  /** Lost sandboxes that were replaced. */
  readonly restores: number;
  readonly status: 'running' | 'graded' | 'failed';
  readonly reward: number | null;
  readonly passed: boolean | null;
  readonly finish: FinishReason | null;
  readonly failure: FailureClass | null;
  /** Its first event. */
  readonly firstAt: string | null;
  readonly dispatchedAt: string | null;
  readonly startedAt: string | null;
  readonly gradedAt: string | null;
  /** Its first end in the table of events. */
  readonly ended: RolloutEnd['event'] | null;
  readonly endedAt: string | null;
  readonly detail: string | null;
}

/** All that are given must hold. */
export interface RolloutFilter {
  readonly rollout?: string;
  readonly run?: string;
  readonly step?: number;
  readonly task?: string;
  readonly source?: string;
  readonly status?: RolloutRow['status'];
  readonly failure?: string;
  readonly minReward?: number;
  readonly maxReward?: number;
  /** First event at this time or later, and before that one. ISO 8601, UTC. */
  readonly since?: string;
  readonly until?: string;
  /** The start of the rollout's id. */
  readonly prefix?: string;
  /** Names of batches (`step-3`). */
  readonly batches?: readonly string[];
}

export interface CallRow {
  readonly kind: 'model' | 'tool' | 'judge';
  readonly rollout: string;
  readonly attempt: number;
  readonly turn: number;
  /** Of a tool call: its place in the turn, from 0. Of a judge's: who asked, the question's digest, and a number. */
  readonly place: number | string;
  /** Its first start. ISO 8601. Null if it was answered without being run. */
  readonly started: string | null;
  readonly starts: number;
  /** When its result was recorded. Null if it has none. */
  readonly ended: string | null;
}

const RUNS = `SELECT name, kind, started_at AS startedAt, coalesce(status, 'running') AS status,
    finished_at AS finishedAt
  FROM runs LEFT JOIN ends ON ends.run = name AND number = (SELECT max(number) FROM starts WHERE starts.run = name)
  ORDER BY started_at, name`;

const ROLLOUTS = `SELECT rollout, run, batch, step, task, source, attempt, turns, restores, status, reward, passed, finish,
    failure, first_at AS firstAt, dispatched_at AS dispatchedAt, started_at AS startedAt, graded_at AS gradedAt, ended, ended_at AS endedAt,
    detail
  FROM rollouts`;

const WHERE: Readonly<Record<Exclude<keyof RolloutFilter, 'batches' | 'prefix'>, string>> = {
  rollout: 'rollout = ?',
  run: 'run = ?',
  step: 'step = ?',
  task: 'task = ?',
  source: 'source = ?',
  status: 'status = ?',
  failure: 'failure = ?',
  minReward: 'reward >= ?',
  maxReward: 'reward <= ?',
  since: 'first_at >= ?',
  until: 'first_at < ?',
};

export function runsIn(db: DatabaseSync): RunRow[] {
  return db.prepare(RUNS).all() as unknown as RunRow[];
}

/** The query for `filter` and its values. */
export function rolloutsQuery({ batches, prefix, ...filter }: RolloutFilter): { sql: string; values: SQLInputValue[] } {
  const given = Object.entries(filter) as ReadonlyArray<readonly [keyof typeof WHERE, SQLInputValue | undefined]>;
  const set = given.flatMap(([name, value]) => (value === undefined ? [] : [{ text: WHERE[name], value }]));
  if (prefix !== undefined) {
    set.push({ text: 'rollout >= ?', value: prefix }, { text: 'rollout < ?', value: afterPrefix(prefix) });
  }
  const conditions = set.map(({ text }) => text);
  if (batches !== undefined) conditions.push('batch IN (SELECT value FROM json_each(?))');
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  return {
    // With the plus sign, SQLite does not read the whole table in this order to avoid the sorting.
    sql: `${ROLLOUTS}${where} ORDER BY +rollout`,
    values: [...set.map(({ value }) => value), ...(batches === undefined ? [] : [JSON.stringify(batches)])],
  };
}

export function rolloutsIn(db: DatabaseSync, filter: RolloutFilter): RolloutRow[] {
  const { sql, values } = rolloutsQuery(filter);
  const rows = db.prepare(sql).all(...values) as unknown as Array<RolloutRow & { readonly passed: unknown }>;
  return rows.map((row) => ({ ...row, passed: row.passed === null ? null : Boolean(row.passed) }));
}

export function callsIn(db: DatabaseSync, rollout: string): CallRow[] {
  return db
    .prepare(
      `SELECT kind, rollout, attempt, turn, place, started, starts, ended FROM calls WHERE rollout = ?
         ORDER BY attempt, turn, kind, place`,
    )
    .all(rollout)
    .map((row) => ({ ...row })) as unknown as CallRow[];
}

/** Damaged records by which runs and evals are listed. */
export function damagedLists(db: DatabaseSync): DamagedChange[] {
  const kinds = "('run', 'run-end', 'run-again', 'eval', 'eval-round', 'eval-end')";
  return db
    .prepare(`SELECT kind, key FROM damaged WHERE kind = 'record' AND substr(key, 1, instr(key, ':') - 1) IN ${kinds}`)
    .all() as unknown as DamagedChange[];
}

/** Damaged rows of the run. */
export function damagedIn(db: DatabaseSync, run: string): DamagedChange[] {
  return db.prepare('SELECT kind, key FROM damaged WHERE run = ?').all(run) as unknown as DamagedChange[];
}

function totals(db: DatabaseSync, run: string, over: boolean, stopped: boolean): Accounting {
  const counted = db.prepare('SELECT ended, count(*) AS n FROM rollouts WHERE run = ? GROUP BY ended').all(run);
  const ends = new Map(counted.map(({ ended, n }) => [ended, Number(n)]));
  const count = (end: string) => ends.get(end) ?? 0;
  const row = db
    .prepare(
      `SELECT count(dispatched_at) AS dispatched, coalesce(sum(again), 0) AS duplicated,
         coalesce(sum(dispatched_at IS NOT NULL AND ended IS NULL), 0) AS open FROM rollouts WHERE run = ?`,
    )
    .get(run);
  const open = over ? Number(row?.['open']) : 0;
  return {
    dispatched: Number(row?.['dispatched']),
    trained: count('trained'),
    masked: count('masked') + (stopped ? open : 0),
    dropped: count('dropped'),
    evaluated: count('evaluated'),
    duplicated: Number(row?.['duplicated']),
    lost: stopped ? 0 : open,
  };
}

/** The groups of a batch, in the order in which their first rollouts were graded. */
function groupsIn(db: DatabaseSync, run: string, batch: string): GroupTimes[] {
  const groups = new Map<string, GroupTimes>();
  const rows = db.prepare('SELECT place, begun, ended FROM gradings WHERE run = ? AND batch = ? ORDER BY seq');
  for (const row of rows.iterate(run, batch)) {
    const [place, begun, ended] = [String(row['place']), Number(row['begun']), Number(row['ended'])];
    const group = groups.get(place) ?? { begun, ended, rollouts: [] };
    groups.set(place, group);
    group.begun = Math.min(group.begun, begun);
    group.ended = Math.max(group.ended, ended);
    group.rollouts.push(ended - begun);
  }
  return [...groups.values()];
}

/**
 * The groups of batches that were read before, by the last of their gradings: a follower asks for all of them often.
 */
export class KnownGroups {
  readonly #known = new Map<string, { readonly last: unknown; readonly groups: readonly GroupTimes[] }>();
  #made: unknown;

  of(db: DatabaseSync, run: string, batch: string): readonly GroupTimes[] {
    const made = db.prepare('SELECT made FROM state').get()?.['made'];
    // Of tables that were made again, the numbers start again.
    if (made !== this.#made) this.#known.clear();
    this.#made = made;
    const last = db.prepare('SELECT max(seq) AS last FROM gradings WHERE run = ? AND batch = ?').get(run, batch)?.[
      'last'
    ];
    const key = `${run}\0${batch}`;
    const known = this.#known.get(key);
    if (known?.last === last) return known?.groups ?? [];
    const groups = groupsIn(db, run, batch);
    this.#known.set(key, { last, groups });
    return groups;
  }
}

function spendingIn(db: DatabaseSync, run: string): SpendingReport {
  const rows = db
    .prepare('SELECT batch, spender, calls, prompt, sampled, usd, seconds FROM spending WHERE run = ?')
    .all(run)
    .map(({ batch, spender, calls, prompt, sampled, usd, seconds }) => ({
      batch: String(batch),
      by: String(spender),
      spent: {
        calls: Number(calls),
        prompt: Number(prompt),
        sampled: Number(sampled),
        usd: Number(usd),
        seconds: Number(seconds),
      },
    }));
  const spenders = [...new Set(rows.map(({ by }) => by))];
  return {
    by: new Map(spenders.map((one) => [one, together(rows.flatMap(({ by, spent }) => (by === one ? [spent] : [])))])),
    metrics: (batches) =>
      judgeMetrics(rows.flatMap(({ batch, by, spent }) => (batches.includes(batch) ? [[by, spent] as const] : []))),
  };
}

/** `db` must stay open. The numbers are those of the moment in which they are asked for. */
export function tallyIn(db: DatabaseSync, run: string, known: KnownGroups): Tally {
  const ends = db.prepare('SELECT batch, ended FROM batch_ends WHERE run = ?').all(run);
  return {
    account: { totals: (over, stopped) => totals(db, run, over, stopped === true) },
    times: { metrics: (batches) => timesOfGroups(batches.flatMap((batch) => known.of(db, run, batch))) },
    spending: spendingIn(db, run),
    batchEnds: new Map(ends.map(({ batch, ended }) => [String(batch), Number(ended)])),
  };
}
