/** SQLite databases of Defog's sql-eval, made of its dumps in PostgreSQL's dialect. Their days count from today. */

import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const BASE = String.raw`CURRENT_DATE|CURRENT_TIMESTAMP|NOW\(\)`;
/** `DATE_TRUNC('week', NOW()) - INTERVAL '1 week' + INTERVAL '1 day'`. */
const TIME = new RegExp(
  String.raw`(?:DATE_TRUNC\('(\w+)', (?:${BASE})\)|(${BASE}))((?:\s*[-+]\s*INTERVAL\s*'[^']*')*)`,
  'giu',
);

/** The modifiers of SQLite's `datetime` for the intervals. */
function modifiers(intervals: string): string[] {
  return [...intervals.matchAll(/([-+])\s*INTERVAL\s*'(\d+) (\w+)'/giu)].map(([, sign, n, unit = '']) =>
    unit.startsWith('week') ? `'${sign}${Number(n) * 7} days'` : `'${sign}${n} ${unit === 'min' ? 'minutes' : unit}'`,
  );
}

function timeOf(_all: string, unit: string | undefined, base: string | undefined, intervals: string): string {
  // The default of a column is a word, and no expression.
  if (base !== undefined && intervals === '') return base.toUpperCase() === 'NOW()' ? 'CURRENT_TIMESTAMP' : base;
  const start = unit === 'week' ? ["'weekday 0'", "'-6 days'"] : unit === undefined ? [] : [`'start of ${unit}'`];
  const name = base !== undefined && base.toUpperCase() !== 'CURRENT_DATE' ? 'datetime' : 'date';
  return `${name}(${["'now'", ...start, ...modifiers(intervals)].join(', ')})`;
}

const INNER = String.raw`((?:[^(),']|'[^']*'|\((?:[^()']|'[^']*')*\))*)`;

/** The dump in SQLite's dialect. */
export function sqliteDump(dump: string): string {
  const schemas = [...dump.matchAll(/CREATE SCHEMA (?:IF NOT EXISTS )?(\w+)/giu)].map(([, name]) => name);
  return dump
    .replaceAll(new RegExp(String.raw`\b(?:${['public', ...schemas].join('|')})\.`, 'gu'), '')
    .replaceAll(/CREATE SCHEMA [^;]*;/giu, '')
    .replaceAll(/::(?:timestamp without time zone|character varying|double precision|\w+)(?:\(\d+\))?/gu, '')
    .replaceAll(/\b(?:BIG)?SERIAL\b/giu, 'INTEGER')
    .replaceAll(TIME, timeOf)
    .replaceAll(new RegExp(String.raw`EXTRACT\(EPOCH FROM ${INNER}\)`, 'giu'), "CAST(strftime('%s', $1) AS INTEGER)")
    .replaceAll(new RegExp(String.raw`EXTRACT\(YEAR FROM ${INNER}\)`, 'giu'), "CAST(strftime('%Y', $1) AS INTEGER)")
    .replaceAll(new RegExp(String.raw`TO_CHAR\(${INNER}, '[^']*'\)`, 'giu'), '$1');
}

/** Writes `FOLDER/NAME/NAME.sqlite` of `DUMPS/NAME.sql`. Errors: those of SQLite, for what it cannot read. */
export async function makeDefogDatabase(dumps: string, name: string, folder: string): Promise<void> {
  await mkdir(join(folder, name), { recursive: true });
  const database = new DatabaseSync(join(folder, name, `${name}.sqlite`));
  try {
    database.exec(sqliteDump(readFileSync(join(dumps, `${name}.sql`), 'utf8')));
  } finally {
    database.close();
  }
}
