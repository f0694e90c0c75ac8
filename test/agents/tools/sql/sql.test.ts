/** The tool `sql` as a policy sees it. */

import { expect, it } from 'vitest';
import { toolNamed } from '../../../../agents/tools/registry.ts';
import type { CallContext } from '../../../../agents/tools/tool.ts';
import { toolboxOf } from '../../../../agents/tools/toolbox.ts';

const database = { script: "CREATE TABLE t (name TEXT, age INTEGER); INSERT INTO t VALUES ('Ann', 3), ('Bob', NULL)" };
const context: CallContext = { callId: 'c', timeoutMs: 1000 };

async function use(query: unknown, options: object = {}): Promise<unknown> {
  const tool = toolNamed('sql').withOptions({ database, ...options }, 'tools.sql.options');
  return (await tool.run({ name: 'sql', arguments: { query } }, undefined, context)).content;
}

it.each([
  ['SELECT * FROM t', 'name  age\n Ann  3.0\n Bob  NaN\n(2 rows)'],
  ['SELECT name FROM t WHERE age = 3', 'name\n Ann\n(1 row)'],
  ['SELECT name FROM t WHERE age = 4', 'No rows. Columns: name'],
  ['SELECT x FROM t', 'Error: no such column: x'],
  ['DROP TABLE t', 'Error: not authorized. The database is read only; give one SELECT.'],
  ['', 'Error: the text has no statement; give one SELECT.'],
])('%j gives %j', async (query, content) => {
  expect(await use(query)).toBe(content);
});

it('shows the first rows of many, and says that there are more', async () => {
  expect(await use('SELECT name FROM t', { rows: 1 })).toBe('name\n Ann\n(the first 1 row; there are more)');
});

it('says when a query takes too long', async () => {
  const endless = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c';
  expect(await use(endless, { seconds: 0.3 })).toBe('Error: the query did not end in 0.3 seconds.');
});

it('reads only, runs in the worker, and needs a database', () => {
  const tool = toolNamed('sql');
  expect([tool.runs, tool.effect, tool.validate({})]).toEqual(['worker', 'none', 'sql needs the parameter query.']);
  expect(() => toolboxOf(['sql'])).toThrow(/tools\.sql\.options\.database.*give the database/u);
  const relative = { name: 'sql', options: { database: { file: 'a.sqlite' } } };
  expect(() => toolboxOf([relative])).toThrow(/tools\.sql\.options\.database/u);
});
