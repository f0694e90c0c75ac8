/**
 * Databases as the process of queries opens them: read only, with an authorizer that allows reading alone, and with
 * values of bounded size. A copy that may be written is in memory and lasts for one query.
 */

import { constants, DatabaseSync, type DatabaseSyncOptions } from 'node:sqlite';
import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { type SqlDatabase, SqlDatabaseUnavailable } from './sql-request.ts';

/** Bytes of one value, also inside of an expression: `zeroblob`, `printf` and `group_concat` end there. */
const LONGEST_VALUE = 16 << 20;
const LONGEST_SQL = 1 << 20;
/** Of a file that is copied into memory for a statement that writes. */
const LARGEST_COPY = 64 << 20;
const OPEN = 8;

/** Pragmas that show the schema, and nothing of the machine. */
const READING_PRAGMAS = new Set([
  'table_info',
  'table_xinfo',
  'table_list',
  'index_list',
  'index_info',
  'index_xinfo',
  'foreign_key_list',
]);
const FORBIDDEN_FUNCTIONS = new Set(['load_extension', 'fts3_tokenizer']);

const READING: ReadonlySet<number> = new Set([
  constants.SQLITE_SELECT,
  constants.SQLITE_READ,
  constants.SQLITE_RECURSIVE,
]);
const NEVER: ReadonlySet<number> = new Set([
  constants.SQLITE_ATTACH,
  constants.SQLITE_DETACH,
  constants.SQLITE_TRANSACTION,
  constants.SQLITE_SAVEPOINT,
]);

const OPTIONS: DatabaseSyncOptions = {
  allowExtension: false,
  // As in Python's SQLite: gold queries of Spider write texts in double quotes.
  enableDoubleQuotedStringLiterals: true,
  limits: { length: LONGEST_VALUE, sqlLength: LONGEST_SQL, attach: 0 },
};

export interface OpenDatabase {
  readonly database: DatabaseSync;
  /** True if a statement prepared since the last call of `forget` writes. */
  writes(): boolean;
  forget(): void;
  /** The database's bytes, with what a log beside the file has. */
  serialize(): Uint8Array;
}

/** From here on, statements read alone. With `mayWrite` they may also change this database. */
function guarded(database: DatabaseSync, mayWrite: boolean): OpenDatabase {
  let writes = false;
  let isOwn = false;
  const { SQLITE_OK, SQLITE_DENY, SQLITE_PRAGMA, SQLITE_FUNCTION } = constants;
  database.enableDefensive(true);
  database.setAuthorizer((action, first, second) => {
    if (isOwn || READING.has(action)) return SQLITE_OK;
    if (action === SQLITE_PRAGMA) {
      return READING_PRAGMAS.has(String(first).toLowerCase()) ? SQLITE_OK : SQLITE_DENY;
    }
    if (action === SQLITE_FUNCTION) {
      return FORBIDDEN_FUNCTIONS.has(String(second).toLowerCase()) ? SQLITE_DENY : SQLITE_OK;
    }
    if (NEVER.has(action) || !mayWrite) return SQLITE_DENY;
    writes = true;
    return SQLITE_OK;
  });
  return {
    database,
    writes: () => writes,
    forget: () => {
      writes = false;
    },
    serialize: () => {
      // It asks for the number of pages by a pragma.
      isOwn = true;
      try {
        return database.serialize();
      } finally {
        isOwn = false;
      }
    },
  };
}

/** A log that a writer left beside the file holds rows, and an immutable database would not see them. */
const hasLog = (file: string): boolean => (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;

function openFile(file: string): DatabaseSync {
  const url = pathToFileURL(file);
  url.search = hasLog(file) ? 'mode=ro' : 'mode=ro&immutable=1';
  const database = new DatabaseSync(url, { ...OPTIONS, readOnly: true });
  // A file that is no database is found here, and not in the policy's statement.
  database.prepare('SELECT count(*) FROM sqlite_master').get();
  return database;
}

function openScript(script: string): DatabaseSync {
  const database = new DatabaseSync(':memory:', OPTIONS);
  database.exec(script);
  database.exec('PRAGMA query_only = 1');
  return database;
}

const nameOf = (source: SqlDatabase): string => ('file' in source ? source.file : 'of a script');

/** Errors: `SqlDatabaseUnavailable`. */
function opening<T>(source: SqlDatabase, open: () => T): T {
  try {
    return open();
  } catch (error) {
    throw new SqlDatabaseUnavailable(`the database ${nameOf(source)} cannot be read: ${(error as Error).message}`);
  }
}

/** A database in memory with the same content, which statements may change; `undefined` if it is too large for that. */
export function openCopy(open: OpenDatabase, source: SqlDatabase): OpenDatabase | undefined {
  if ('file' in source && statSync(source.file).size > LARGEST_COPY) return undefined;
  const bytes = open.serialize();
  // A database in memory has no write-ahead log, so its header must not say that it has one.
  if (bytes.length > 19) bytes.fill(1, 18, 20);
  const copy = new DatabaseSync(':memory:', OPTIONS);
  if (bytes.length > 0) copy.deserialize(bytes);
  return guarded(copy, true);
}

/** The last few databases stay open. One whose file has changed is opened again. */
export class OpenDatabases {
  readonly #open = new Map<string, OpenDatabase>();

  /** `mayWrite`: statements that write are compiled, but fail when they run. Errors: `SqlDatabaseUnavailable`. */
  get(source: SqlDatabase, mayWrite: boolean): OpenDatabase {
    return opening(source, () => {
      const key = JSON.stringify([this.#versionOf(source), mayWrite]);
      const known = this.#open.get(key);
      this.#open.delete(key);
      const found = known ?? guarded('file' in source ? openFile(source.file) : openScript(source.script), mayWrite);
      this.#open.set(key, found);
      const [oldest] = this.#open.keys();
      if (this.#open.size > OPEN && oldest !== undefined) {
        this.#open.get(oldest)?.database.close();
        this.#open.delete(oldest);
      }
      return found;
    });
  }

  #versionOf(source: SqlDatabase): unknown {
    if ('script' in source) return source.script;
    const { mtimeMs, size, ino } = statSync(source.file);
    return [source.file, mtimeMs, size, ino];
  }
}
