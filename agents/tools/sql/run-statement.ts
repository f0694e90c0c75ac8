/** Runs one statement in the process of queries, and keeps of its rows what the limits allow. */

import type { StatementSync } from 'node:sqlite';
import { type OpenDatabase, openCopy, type OpenDatabases } from './open-database.ts';
import {
  rowKey,
  type SqlAnswer,
  SqlDatabaseUnavailable,
  type SqlOutcome,
  type SqlQuery,
  type SqlRow,
  type SqlValue,
} from './sql-request.ts';
import { firstWord, isBlank, isNoStatement, parametersOf } from './sql-text.ts';

const READING = new Set(['SELECT', 'WITH', 'VALUES', 'EXPLAIN', 'PRAGMA']);
const WRITING = new Set(['INSERT', 'UPDATE', 'DELETE', 'REPLACE', 'CREATE', 'DROP', 'ALTER']);

/** SQLite's result codes (https://www.sqlite.org/rescode.html). */
const [NOMEM, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB, IOERR_WRITE] = [7, 10, 11, 13, 14, 26, 778];
/** The machine or the file is at fault; a temporary file that grew too large is the query's own doing. */
const UNAVAILABLE = new Set([IOERR, CORRUPT, FULL, CANTOPEN, NOTADB]);

const NOTHING: SqlOutcome = { kind: 'rows', isQuery: false, columns: [], rows: [], more: false };

const sizeOf = (value: SqlValue): number => {
  if (typeof value === 'string') return value.length * 2;
  return value instanceof Uint8Array ? value.byteLength : 8;
};

/** Steps through the rows, up to the limits. */
function collect(statement: StatementSync, { limits, distinct = false }: SqlQuery): SqlOutcome {
  const columns = statement.columns().map(({ name }) => name);
  const isQuery = columns.length > 0;
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  const rows: SqlRow[] = [];
  const seen = new Set<string>();
  let bytes = 0;
  for (const row of statement.iterate() as unknown as Iterable<SqlRow>) {
    if (distinct) {
      const key = rowKey(row);
      if (seen.has(key)) continue;
      seen.add(key);
    }
    bytes += row.reduce<number>((sum, value) => sum + sizeOf(value), 0);
    if (rows.length >= limits.rows || bytes > limits.bytes) return { kind: 'rows', isQuery, columns, rows, more: true };
    rows.push(row);
  }
  return { kind: 'rows', isQuery, columns, rows, more: false };
}

/** Compiles the text. Errors: any, with the message for the policy. */
function compile({ database }: OpenDatabase, sql: string): StatementSync {
  const statement = database.prepare(sql);
  if (!isBlank(sql.slice(statement.sourceSQL.length))) throw new Error('You can only execute one statement at a time.');
  const most = parametersOf(sql);
  if (most > 0)
    throw new Error(
      `Incorrect number of bindings supplied. The current statement uses ${most}, and there are 0 supplied.`,
    );
  return statement;
}

function run(query: SqlQuery, databases: OpenDatabases): SqlOutcome {
  const { sql, database: source, writes = 'refuse' } = query;
  if (sql.includes('\0')) return { kind: 'error', message: 'the query contains a null character' };
  const mayWrite = writes === 'discard';
  const database = databases.get(source, mayWrite);
  if (isNoStatement(sql)) return NOTHING;
  database.forget();
  const statement = compile(database, sql);
  const word = firstWord(sql);
  const known = READING.has(word) || (mayWrite && WRITING.has(word));
  // VACUUM INTO writes a file even from a database that is read only.
  if (!known) return { kind: 'error', message: 'not authorized' };
  if (!database.writes()) return collect(statement, query);
  const copy = openCopy(database, source);
  if (copy === undefined) return { kind: 'error', message: 'attempt to write a readonly database' };
  try {
    return collect(compile(copy, sql), query);
  } catch (error) {
    const { message, errcode } = error as Error & { readonly errcode?: number };
    // The copy is in memory: no disk is full there, and no file is damaged, but by the statement itself.
    return errcode === NOMEM ? { kind: 'memory' } : { kind: 'error', message };
  } finally {
    copy.database.close();
  }
}

/** Never throws. */
export function runStatement(query: SqlQuery, databases: OpenDatabases): SqlAnswer {
  try {
    return { outcome: run(query, databases) };
  } catch (error) {
    const { message, errcode } = error as Error & { readonly errcode?: number };
    if (error instanceof SqlDatabaseUnavailable) return { unavailable: message };
    if (errcode === NOMEM) return { outcome: { kind: 'memory' } };
    if (errcode !== undefined && errcode !== IOERR_WRITE && UNAVAILABLE.has(errcode & 0xff))
      return { unavailable: message };
    return { outcome: { kind: 'error', message } };
  }
}
