/** What a query is, and what comes of it: plain values, so that they cross a process. */

/** NULL, INTEGER, REAL, TEXT and BLOB. Bytes of a text that are not UTF-8 are U+FFFD. */
export type SqlValue = null | bigint | number | string | Uint8Array;

export type SqlRow = readonly SqlValue[];

/** A file of SQLite, or the statements that make a small database in memory. Both are read, never changed. */
export type SqlDatabase = { readonly file: string } | { readonly script: string };

export interface SqlLimits {
  /** Of one query, from the time that a process has it. */
  readonly seconds: number;
  /** Rows that are kept. */
  readonly rows: number;
  /** Bytes of the kept rows' values: numbers have 8. */
  readonly bytes: number;
}

export interface SqlQuery {
  readonly database: SqlDatabase;
  readonly sql: string;
  readonly limits: SqlLimits;
  /** True: equal rows are kept once, as Python's sets do it (1 and 1.0 are equal). Default: false. */
  readonly distinct?: boolean;
  /**
   * What a statement that writes does. `refuse` (the default): an error. `discard`: it runs on a copy in memory, which
   * ends with the query. A file for it has at most 64 MiB.
   */
  readonly writes?: 'refuse' | 'discard';
}

/** What a query gives. All but `rows` are the query's own fault. */
export type SqlOutcome =
  | {
      readonly kind: 'rows';
      /** False for a statement without result columns: one that writes, or an empty text. */
      readonly isQuery: boolean;
      readonly columns: readonly string[];
      readonly rows: readonly SqlRow[];
      /** True: the limits ended the query, and there are more rows. */
      readonly more: boolean;
    }
  | { readonly kind: 'error'; readonly message: string }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'memory' };

/** A database that cannot be read. It is nobody's answer: the machine or the data is at fault. */
export class SqlDatabaseUnavailable extends Error {
  override readonly name = 'SqlDatabaseUnavailable';
}

/** The process of a query was lost, and not by the query. `hasRun`: false if no process was ever given the query. */
export class SqlProcessLost extends Error {
  override readonly name = 'SqlProcessLost';
  readonly hasRun: boolean;

  constructor(reason: string, hasRun: boolean) {
    super(`the process of an SQL query was lost: ${reason}`);
    this.hasRun = hasRun;
  }
}

/** From the process: an outcome, or why there is none. */
export type SqlAnswer = { readonly outcome: SqlOutcome } | { readonly unavailable: string };

/** Equal for values that Python calls equal, and different for all others. */
export function valueKey(value: SqlValue): string {
  if (value === null) return 'n';
  if (typeof value === 'bigint') return `i${value}`;
  if (typeof value === 'number') return Number.isInteger(value) ? `i${BigInt(value)}` : `f${value}`;
  return typeof value === 'string' ? `t${value}` : `b${Buffer.from(value).toString('hex')}`;
}

export const rowKey = (row: SqlRow): string => JSON.stringify(row.map(valueKey));
