/** The three verdicts on one database. */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { gradeSql, isOrdered, type SqlGrading, spiderQuery } from '../../../tasks/sql/verdicts.ts';

const script = `CREATE TABLE t (name TEXT, age INTEGER, town TEXT);
  INSERT INTO t VALUES ('Ann', 30, 'Oslo'), ('Bob', 40, 'Oslo'), ('Cleo', 30, NULL);`;

const grading = (
  verdict: SqlGrading['verdict'],
  gold: string | readonly string[],
  more: Partial<SqlGrading> = {},
): SqlGrading => ({
  verdict,
  database: { script },
  golds: [gold].flat(),
  seconds: 20,
  keepDistinct: false,
  signal: new AbortController().signal,
  ...more,
});

/** The grade by `skyrl`, `bird` and `spider`, in that order. */
const grades = async (sql: string, gold: string): Promise<string[]> =>
  await Promise.all(
    (['skyrl', 'bird', 'spider'] as const).map(async (verdict) => (await gradeSql(sql, grading(verdict, gold))).grade),
  );
const [yes, no] = ['right', 'wrong'] as const;

describe('the same query', () => {
  it.each([
    ['SELECT name, age FROM t', 'SELECT name, age FROM t', [yes, yes, yes]],
    ['SELECT age, name FROM t', 'SELECT name, age FROM t', [no, no, yes]],
    ['SELECT age FROM t', 'SELECT DISTINCT age FROM t', [yes, yes, yes]],
    ['SELECT age FROM t LIMIT 2', 'SELECT age FROM t', [yes, yes, no]],
    ['SELECT name FROM t ORDER BY name DESC', 'SELECT name FROM t ORDER BY name', [yes, yes, no]],
    ['SELECT name FROM t ORDER BY name DESC', 'SELECT name FROM t', [yes, yes, yes]],
    ['SELECT 40.0', 'SELECT max(age) FROM t', [yes, yes, yes]],
    ["SELECT '40'", 'SELECT max(age) FROM t', [no, no, no]],
    ['SELECT name, age FROM t WHERE 0', 'SELECT town FROM t WHERE 0', [yes, yes, yes]],
    ['SELECT name FROM t; SELECT 1', 'SELECT name FROM t', [no, no, no]],
    ['SELECT nothing FROM t', 'SELECT name FROM t', [no, no, no]],
    ['', 'SELECT name FROM t WHERE 0', [no, no, no]],
    ['DELETE FROM t', 'SELECT name FROM t WHERE 0', [no, no, no]],
    ['SELECT name FROM t WHERE age > = 40', 'SELECT name FROM t WHERE age >= 40', [no, no, yes]],
  ])('%j against %j', async (sql, gold, wanted) => {
    expect(await grades(sql, gold)).toEqual(wanted);
  });

  it('counts DISTINCT only if asked', async () => {
    const [sql, gold] = ['SELECT age FROM t', 'SELECT DISTINCT age FROM t'];
    expect((await gradeSql(sql, grading('spider', gold, { keepDistinct: true }))).grade).toBe('wrong');
  });
});

describe('a gold query', () => {
  it('is one of several, and a broken one does not count beside others', async () => {
    const golds = ['SELECT missing', 'SELECT name FROM t', 'SELECT name, age FROM t'];
    expect((await gradeSql('SELECT name, age FROM t', grading('bird', golds))).grade).toBe('right');
    expect(await gradeSql('SELECT 1', grading('bird', golds))).toEqual({
      grade: 'wrong',
      reason: 'the result differs: 1 rows, gold has 3',
    });
  });

  it('that fails says nothing about the answer', async () => {
    const broken = await gradeSql('SELECT 1', grading('spider', 'SELECT missing'));
    expect(broken).toEqual({ grade: 'bad-gold', reason: 'the gold query fails: no such column: missing' });
    const endless = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c';
    expect((await gradeSql('SELECT 1', grading('bird', endless, { seconds: 0.3 }))).grade).toBe('unknown');
    expect(await gradeSql(endless, grading('bird', 'SELECT 1', { seconds: 0.3 }))).toEqual({
      grade: 'wrong',
      reason: 'the query did not end in 0.3 seconds',
    });
  });
});

describe('the verdict spider', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'longhaul-suite-'));
    mkdirSync(join(folder, 'd'));
    // In the first database both queries agree by chance.
    for (const [name, rows] of [
      ['d.sqlite', '(1, 1)'],
      ['d_2.sqlite', '(1, 2)'],
    ] as const) {
      const database = new DatabaseSync(join(folder, 'd', name));
      database.exec(`CREATE TABLE t (a, b); INSERT INTO t VALUES ${rows}`);
      database.close();
    }
    writeFileSync(join(folder, 'd', 'notes.txt'), '');
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('wants both queries to agree on every database of the folder', async () => {
    const database = { file: join(folder, 'd', 'd.sqlite') };
    expect((await gradeSql('SELECT b FROM t', grading('bird', 'SELECT a FROM t', { database }))).grade).toBe('right');
    expect((await gradeSql('SELECT b FROM t', grading('spider', 'SELECT a FROM t', { database }))).grade).toBe('wrong');
  });

  it('changes queries as the evaluation does, outside of literals', () => {
    const sql = `SELECT COUNT(DISTINCT a), 'distinct > =' FROM t WHERE a > = 1 AND b ! = YEAR ( CURDATE() )`;
    expect(spiderQuery(sql, false)).toBe(`SELECT COUNT( a), 'distinct > =' FROM t WHERE a >= 1 AND b != 2020`);
    expect(spiderQuery('SELECT DISTINCT a', true)).toBe('SELECT DISTINCT a');
    expect(spiderQuery('SELECT a IS NOT DISTINCT FROM b', false)).toBe('SELECT a IS NOT DISTINCT FROM b');
    expect(isOrdered('SELECT a FROM t\nORDER\n BY a')).toBe(true);
    expect(isOrdered("SELECT 'order by' FROM t")).toBe(false);
  });
});
