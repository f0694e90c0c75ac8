/**
 * Queries in processes of their own. Why: a query of SQLite cannot be interrupted, so a policy's one query could stop a
 * worker, fill its memory or its disk, or write into data.
 */

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { SqlPool } from '../../../../agents/tools/sql/sql-pool.ts';
import {
  SqlDatabaseUnavailable,
  type SqlOutcome,
  SqlProcessLost,
  type SqlQuery,
} from '../../../../agents/tools/sql/sql-request.ts';

const limits = { seconds: 20, rows: 1000, bytes: 1 << 20 };
const ENDLESS = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c';
/** Takes some tenths of a second. */
const LONG = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 2000000) SELECT count(*) FROM c';

let folder: string;
let file: string;
let pool: SqlPool;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-sql-'));
  file = join(folder, 'a b?#.sqlite');
  const database = new DatabaseSync(file);
  database.exec(`CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT, r REAL, b BLOB);
    INSERT INTO t VALUES (1, 'x', 1.5, x'00ff'), (2, NULL, 2.0, NULL), (9007199254740993, CAST(x'41ff42' AS TEXT), -1, 'y')`);
  database.close();
  pool = new SqlPool(2);
});
afterAll(() => {
  pool.close();
  rmSync(folder, { recursive: true });
});

const ask = (sql: string, more: Partial<SqlQuery> = {}): Promise<SqlOutcome> =>
  pool.run({ database: { file }, sql, limits, ...more });
const rowsOf = (outcome: SqlOutcome) => (outcome.kind === 'rows' ? outcome.rows : outcome);

describe('a query', () => {
  it('returns values as SQLite has them, with large integers and bytes that are no UTF-8', async () => {
    expect(rowsOf(await ask('SELECT * FROM t ORDER BY n'))).toEqual([
      [1n, 'x', 1.5, new Uint8Array([0, 255])],
      [2n, null, 2, null],
      [9007199254740993n, 'A\u{fffd}B', -1, 'y'],
    ]);
  });

  it('keeps equal rows once if asked, as Python does', async () => {
    const sql = "SELECT 1 UNION ALL SELECT 1.0 UNION ALL SELECT '1' UNION ALL SELECT NULL UNION ALL SELECT NULL";
    expect(rowsOf(await ask(sql, { distinct: true }))).toEqual([[1n], ['1'], [null]]);
  });

  it('ends at the limit of rows or bytes, and says that there are more', async () => {
    const many = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c';
    expect(await ask(many, { limits: { ...limits, rows: 2 } })).toMatchObject({ rows: [[1n], [2n]], more: true });
    const wide = 'SELECT hex(zeroblob(500)) UNION ALL SELECT hex(zeroblob(500))';
    const cut = await ask(wide, { limits: { ...limits, bytes: 3000 } });
    expect(cut).toMatchObject({ more: true });
    expect(rowsOf(cut)).toHaveLength(1);
  });

  it.each([
    ['SELECT 1; SELECT 2', 'You can only execute one statement at a time.'],
    [
      'SELECT n FROM t WHERE s = ? OR s = :name',
      'Incorrect number of bindings supplied. The current statement uses 2, and there are 0 supplied.',
    ],
    ['SELECT * FROM missing', 'no such table: missing'],
    ['SELEC', 'near "SELEC": syntax error'],
    ["SELECT 'a\0b'", 'the query contains a null character'],
    ['DELETE FROM t', 'not authorized'],
    ['CREATE TEMP TABLE u (a)', 'not authorized'],
    ["ATTACH ':memory:' AS other", 'not authorized'],
    ['PRAGMA query_only = 0', 'not authorized'],
    ['PRAGMA writable_schema = 1', 'not authorized'],
    ['PRAGMA temp_store_directory', 'not authorized'],
    ["SELECT load_extension('x')", 'not authorized to use function: load_extension'],
    ['BEGIN', 'not authorized'],
    ['REINDEX', 'not authorized'],
    ['VACUUM', 'not authorized'],
    ['SELECT * FROM pragma_database_list', 'not authorized'],
  ])('%s is refused', async (sql, message) => {
    expect(await ask(sql)).toMatchObject({ kind: 'error', message });
  });

  it('shows the schema, reads texts in double quotes, and takes comments and a semicolon at the end', async () => {
    expect(rowsOf(await ask('PRAGMA table_info(t)'))).toHaveLength(4);
    expect(rowsOf(await ask("SELECT name FROM pragma_table_info('t') LIMIT 1; -- columns"))).toEqual([['n']]);
    expect(rowsOf(await ask('SELECT n FROM t WHERE s = "x"'))).toEqual([[1n]]);
    expect(await ask(' -- nothing')).toMatchObject({ kind: 'rows', isQuery: false, rows: [] });
    expect(await ask('; /* nothing */ ;')).toMatchObject({ kind: 'rows', isQuery: false, rows: [] });
    expect(rowsOf(await ask('; SELECT 1'))).toEqual([[1n]]);
  });

  it('writes no file, whatever it says', async () => {
    const before = readFileSync(file);
    const target = join(folder, 'written.sqlite');
    for (const writes of ['refuse', 'discard'] as const) {
      expect(await ask(`VACUUM INTO '${target}'`, { writes })).toMatchObject({
        kind: 'error',
        message: 'not authorized',
      });
      expect(await ask(`/* */ VACUUM main INTO '${target}'`, { writes })).toMatchObject({ kind: 'error' });
      expect(await ask(`ATTACH '${target}' AS x`, { writes })).toMatchObject({ kind: 'error' });
      expect(await ask('PRAGMA journal_mode = WAL', { writes })).toMatchObject({ kind: 'error' });
    }
    expect(existsSync(target)).toBe(false);
    expect(readFileSync(file)).toEqual(before);
  });

  it('may write into a copy, which ends with it', async () => {
    const discard = { writes: 'discard' } as const;
    expect(await ask('DELETE FROM t', discard)).toMatchObject({ kind: 'rows', isQuery: false, rows: [] });
    expect(rowsOf(await ask("UPDATE t SET s = 'z' WHERE n = 1 RETURNING s", discard))).toEqual([['z']]);
    expect(await ask('INSERT INTO t (n) VALUES (1)', discard)).toMatchObject({ message: /UNIQUE constraint failed/u });
    expect(await ask('DROP TABLE t', discard)).toMatchObject({ kind: 'rows' });
    // As of a full disk, though no other row can have a number.
    const counted = { script: 'CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT)' };
    const last = 'INSERT INTO a VALUES (9223372036854775807), (NULL)';
    expect(await ask(last, { ...discard, database: counted })).toMatchObject({ kind: 'error', message: /is full/u });
    expect(rowsOf(await ask('SELECT count(*), max(s) FROM t', discard))).toEqual([[3n, 'x']]);
  });

  it('reads the rows that a writer left in its log', async () => {
    const log = join(folder, 'log.sqlite');
    const writer = new DatabaseSync(log);
    writer.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7)');
    expect(statSync(`${log}-wal`).size).toBeGreaterThan(0);
    expect(rowsOf(await ask('SELECT a FROM t', { database: { file: log } }))).toEqual([[7n]]);
    const copied = { database: { file: log }, writes: 'discard' } as const;
    expect(rowsOf(await ask('DELETE FROM t RETURNING a', copied))).toEqual([[7n]]);
    writer.close();
    expect(rowsOf(await ask('SELECT a FROM t', { database: { file: log } }))).toEqual([[7n]]);
  });

  it('sees a file that has changed', async () => {
    const changing = join(folder, 'changing.sqlite');
    const database = { file: changing };
    for (const value of [1, 2]) {
      rmSync(changing, { force: true });
      const made = new DatabaseSync(changing);
      made.exec(`CREATE TABLE t (a); INSERT INTO t VALUES (${value})`);
      made.close();
      expect(rowsOf(await ask('SELECT a FROM t', { database }))).toEqual([[BigInt(value)]]);
    }
  });

  it('runs on a database that a script makes, and cannot change it', async () => {
    const database = { script: "CREATE TABLE t (a); INSERT INTO t VALUES ('k')" };
    expect(await ask('DELETE FROM t', { database })).toMatchObject({ message: 'not authorized' });
    expect(rowsOf(await ask('DELETE FROM t RETURNING a', { database, writes: 'discard' }))).toEqual([['k']]);
    expect(rowsOf(await ask('SELECT a FROM t', { database }))).toEqual([['k']]);
  });

  it('does not blame the query for a database that cannot be read', async () => {
    await expect(ask('SELECT 1', { database: { file: join(folder, 'none.sqlite') } })).rejects.toThrow(
      SqlDatabaseUnavailable,
    );
    const broken = join(folder, 'broken.sqlite');
    writeFileSync(broken, 'This is no database at all. '.repeat(100));
    await expect(ask('SELECT 1', { database: { file: broken } })).rejects.toThrow(
      /cannot be read: file is not a database/u,
    );
  });
});

describe('a hostile query', () => {
  const short = { limits: { ...limits, seconds: 0.7 } };

  it.each([
    ['a recursion without end', ENDLESS],
    [
      'a cross join',
      'WITH d(x) AS (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) SELECT count(*) FROM d a, d b, d c, d e, d f, d g, d h, d i, d j, d k, d l',
    ],
    ['rows that are all the same', 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT x FROM c'],
    [
      'a sort without end',
      'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c ORDER BY -x',
    ],
  ])('%s ends at the time limit', async (_name, sql) => {
    expect(await ask(sql, { ...short, distinct: true })).toEqual({ kind: 'timeout' });
  });

  it.each([
    'SELECT zeroblob(1000000000)',
    'SELECT length(zeroblob(1000000000))',
    'SELECT randomblob(900000000)',
    "SELECT length(printf('%.*c', 900000000, 'x'))",
    "SELECT length(replace(hex(zeroblob(8000000)), '0', 'xxxxxxxx'))",
    'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1000) SELECT length(group_concat(hex(zeroblob(100000)))) FROM c',
    "WITH RECURSIVE c(x) AS (SELECT 'abcdefgh' UNION ALL SELECT x || x FROM c) SELECT length(x) FROM c WHERE length(x) > 900000000",
  ])('%s has no value of that size', async (sql) => {
    expect(await ask(sql)).toEqual({ kind: 'error', message: 'string or blob too big' });
  });

  it('ends before it takes too much memory', async () => {
    const sql = `CREATE TABLE u AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
      SELECT zeroblob(4000000 + x) FROM c`;
    expect(await ask(sql, { writes: 'discard' })).toEqual({ kind: 'memory' });
    expect(rowsOf(await ask('SELECT 6'))).toEqual([[6n]]);
  });

  it('does not disturb the queries beside it and after it', async () => {
    const endless = ask(ENDLESS, short);
    const others = Array.from({ length: 200 }, (_, i) => ask(`SELECT ${i}`));
    expect((await Promise.all(others)).map(rowsOf)).toEqual(others.map((_, i) => [[BigInt(i)]]));
    expect(await endless).toEqual({ kind: 'timeout' });
    expect(rowsOf(await ask('SELECT 5'))).toEqual([[5n]]);
  });
});

describe('a process that is lost', () => {
  const kill = (one: SqlPool): void => one.busy.forEach((pid) => process.kill(pid, 'SIGKILL'));
  const long = { database: { script: '' }, sql: LONG, limits };

  it('loses no query: another one runs it', async () => {
    const own = new SqlPool(1);
    await own.run({ ...long, sql: 'SELECT 1' });
    const asked = own.run(long);
    kill(own);
    expect(rowsOf(await asked)).toEqual([[2_000_000n]]);
    own.close();
  });

  it('is an error if it happens again, and not an answer', async () => {
    const own = new SqlPool(1);
    await own.run({ ...long, sql: 'SELECT 1' });
    const asked = own.run({ ...long, sql: ENDLESS, limits: { ...limits, seconds: 300 } });
    const outcome = expect(asked).rejects.toThrow(SqlProcessLost);
    const [first] = own.busy;
    kill(own);
    await vi.waitUntil(() => own.busy[0] !== undefined && own.busy[0] !== first, { timeout: 60_000 });
    kill(own);
    await outcome;
    own.close();
  });

  it('is the fault of a policy’s query if a control on the same database runs', async () => {
    const own = new SqlPool(1);
    await own.run({ ...long, sql: 'SELECT 1' });
    const asked = own.runOfPolicy({ ...long, sql: ENDLESS, limits: { ...limits, seconds: 300 } });
    const [first] = own.busy;
    kill(own);
    await vi.waitUntil(() => own.busy[0] !== undefined && own.busy[0] !== first, { timeout: 60_000 });
    kill(own);
    expect(await asked).toMatchObject({ kind: 'error', message: /was lost/u });
    own.close();
    await expect(own.runOfPolicy({ ...long, database: { file: '/none' } })).rejects.toThrow(SqlDatabaseUnavailable);
  });

  it('is no fault of a policy’s query that was given to no process, whatever a control says', async () => {
    const own = new SqlPool(1);
    const asked = own.runOfPolicy({ ...long, sql: 'SELECT 1' });
    own.close();
    await expect(asked).rejects.toThrow(SqlProcessLost);
    own.close();
  });

  it('is ended for a query that nobody waits for any more', async () => {
    const own = new SqlPool(1);
    const stop = new AbortController();
    const asked = own.run({ ...long, sql: ENDLESS, limits: { ...limits, seconds: 300 } }, stop.signal);
    const waiting = own.run({ ...long, sql: 'SELECT 2' });
    stop.abort(new Error('no longer needed'));
    await expect(asked).rejects.toThrow('no longer needed');
    expect(rowsOf(await waiting)).toEqual([[2n]]);
    await expect(own.run(long, stop.signal)).rejects.toThrow('no longer needed');
    own.close();
  });

  it('ends with its worker, even in a query without end', async () => {
    const pool = join(import.meta.dirname, '../../../../agents/tools/sql/sql-pool.ts');
    const program = `import { SqlPool } from ${JSON.stringify(pool)};
      const pool = new SqlPool(1);
      const limits = { seconds: 600, rows: 1, bytes: 100 };
      await pool.run({ database: { script: '' }, sql: 'SELECT 1', limits });
      void pool.run({ database: { script: '' }, sql: ${JSON.stringify(ENDLESS)}, limits });
      console.log(pool.busy[0]);`;
    const worker = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [pid = 0] = await new Promise<number[]>((resolve) =>
      worker.stdout.once('data', (data: Buffer) => resolve([Number(data.toString())])),
    );
    expect(existsSync(`/proc/${pid}`)).toBe(true);
    worker.kill('SIGKILL');
    await vi.waitUntil(() => !existsSync(`/proc/${pid}`), { timeout: 60_000 });
  });
});
