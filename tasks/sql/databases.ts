/** Where the database of a record is, below the folder of databases, and what it has. */

import { openSync, closeSync, readSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { runSql } from '../../agents/tools/sql/sql-pool.ts';
import { SqlDatabaseUnavailable, type SqlDatabase } from '../../agents/tools/sql/sql-request.ts';

/** SkyRL's layouts by the names of its records' field `data`, and one folder of databases. */
export const LAYOUTS = ['plain', 'synsql', 'spider', 'bird'] as const;
export type Layout = (typeof LAYOUTS)[number];

const FOLDERS: Readonly<Record<Layout, string>> = {
  plain: '',
  synsql: 'SynSQL-2.5M/databases',
  spider: 'spider/database',
  bird: 'bird/train/train_databases',
};

const ID = /^[^/\\\0]{1,200}$/u;

/** The path below the folder of databases: `FOLDER/ID/ID.sqlite`. `undefined` if the id cannot be a name. */
export const databasePath = (id: string, layout: Layout): string | undefined =>
  ID.test(id) && id !== '.' && id !== '..' ? join(FOLDERS[layout], id, `${id}.sqlite`) : undefined;

export const isDatabase = (file: string): boolean => existsSync(file);

/**
 * What tells versions of a database apart without reading it whole: its header, which has the number of changes and of
 * pages. The same in every copy of the file. Errors: those of the read.
 */
export function versionOf(file: string): string {
  const header = Buffer.alloc(100);
  const descriptor = openSync(file, 'r');
  try {
    return header.toString('base64', 0, readSync(descriptor, header));
  } finally {
    closeSync(descriptor);
  }
}

/** The statements that make its tables and views, in the order of their making. Errors: those of `runSql`. */
export async function schemaOf(database: SqlDatabase): Promise<string> {
  const sql =
    "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' AND sql IS NOT " +
    'NULL ORDER BY rowid';
  const limits = { seconds: 60, rows: 10_000, bytes: 4 << 20 };
  const outcome = await runSql({ database, sql, limits });
  if (outcome.kind !== 'rows') throw new SqlDatabaseUnavailable(`the schema cannot be read: ${outcome.kind}`);
  return outcome.rows.map(([text]) => `${String(text)};`).join('\n\n');
}
