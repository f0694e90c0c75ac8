/** Reads what was written to a SQLite store after a cursor, by the numbers of its rows. */

import type { StatementSync } from 'node:sqlite';
import { type CheckedRow, damageOf, type EventRow, type ExecutionRow, keyOf, type ResultRow } from './checked-rows.ts';
import type { Changes, DamagedChange } from './store.ts';

/** The last rows that were read. `sum`: of that event, which a restored store may have replaced. */
interface Cursor {
  readonly store: string;
  readonly records: number;
  readonly events: number;
  readonly executions: number;
  readonly sum: number;
}

type Prepare = (sql: string) => StatementSync;

function read(text: string | undefined, store: string): Cursor {
  if (text === undefined) return { store, records: 0, events: 0, executions: 0, sum: 0 };
  return JSON.parse(text) as Cursor;
}

/** True if the rows before the cursor are those that were read. Deleted rows keep their numbers. */
function isOf({ store, records, events, executions, sum }: Cursor, identity: string, prepare: Prepare): boolean {
  if (store !== identity) return false;
  const rows = prepare('SELECT name, seq FROM sqlite_sequence').all();
  const last = new Map(rows.map(({ name, seq }) => [String(name), Number(seq)]));
  const isReached = (table: string, seq: number) => seq <= (last.get(table) ?? 0);
  if (!isReached('results', records) || !isReached('events', events) || !isReached('executions', executions))
    return false;
  return events === 0 || prepare('SELECT sum FROM events WHERE seq = ?').get(events)?.['sum'] === sum;
}

/** A record without its value cannot be checked. */
type RecordRow = { readonly seq: number; readonly key: string; readonly at: string } & (
  | ResultRow
  | { readonly value: null; readonly sum: number }
);

/** Separates the undamaged of `rows`. */
function whole<Row extends CheckedRow>(rows: readonly Row[], kind: DamagedChange['kind'], damaged: DamagedChange[]) {
  return rows.filter((row) => {
    if (damageOf(row) === undefined) return true;
    damaged.push({ kind, key: keyOf(row), ...('run' in row ? { run: String(row.run) } : {}) });
    return false;
  });
}

function recordsOf(rows: readonly RecordRow[], damaged: DamagedChange[]): Changes['records'] {
  return rows.flatMap((row) => {
    if (row.value === null) return [{ key: row.key, at: row.at }];
    return whole([row], 'record', damaged).map(({ key, at, value }) => ({
      key,
      at,
      value: JSON.parse(value) as unknown,
    }));
  });
}

/** As `Store.changes`. */
export function changesIn(
  prepare: Prepare,
  text: string | undefined,
  limit: number,
  kinds: readonly string[],
): Changes | undefined {
  const identity = String(prepare('SELECT identity FROM about').get()?.['identity']);
  const cursor = read(text, identity);
  if (!isOf(cursor, identity, prepare)) return undefined;
  const executionRows = prepare('SELECT seq, key, at, sum FROM executions WHERE seq > ? ORDER BY seq LIMIT ?').all(
    cursor.executions,
    limit,
  ) as unknown as ExecutionRow[];
  const eventRows = prepare(
    'SELECT seq, run, rollout, attempt, event, at, detail, sum FROM events WHERE seq > ? ORDER BY seq LIMIT ?',
  ).all(cursor.events, limit) as unknown as EventRow[];
  // The pages of a value that is not asked for are not read.
  const recordRows = prepare(
    `SELECT seq, key, at, sum,
       CASE WHEN substr(key, 1, instr(key, ':') - 1) IN (SELECT value FROM json_each(?)) THEN value END AS value
     FROM results WHERE seq > ? ORDER BY seq LIMIT ?`,
  ).all(JSON.stringify(kinds), cursor.records, limit) as unknown as RecordRow[];
  const damaged: DamagedChange[] = [];
  return {
    executions: whole(executionRows, 'execution', damaged).map(({ sum: _sum, ...execution }) => execution),
    events: whole(eventRows, 'event', damaged).map(({ seq: _seq, sum: _sum, detail, ...event }) =>
      detail === '' ? event : { ...event, detail },
    ),
    records: recordsOf(recordRows, damaged),
    damaged,
    cursor: JSON.stringify({
      store: identity,
      records: recordRows.at(-1)?.seq ?? cursor.records,
      events: eventRows.at(-1)?.seq ?? cursor.events,
      executions: executionRows.at(-1)?.seq ?? cursor.executions,
      sum: eventRows.at(-1)?.sum ?? cursor.sum,
    } satisfies Cursor),
    more: [executionRows, eventRows, recordRows].some((rows) => rows.length === limit),
  };
}
