/** Hunts a table whose cells are moved, changed or filled up, and a compressed file that is read in part. */

import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { BadRecord } from '../../../tasks/data/bad-record.ts';
import { readRecords } from '../../../tasks/data/read-records.ts';
import { recordsDataset } from '../../../tasks/data/records-dataset.ts';
import type { Task } from '../../../tasks/environment.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-tables-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function file(name: string, content: string | Buffer): string {
  writeFileSync(join(dir, name), content);
  return join(dir, name);
}

const texts = z.record(z.string(), z.string());
const cells = async (name: string, content: string | Buffer) => (await readRecords(file(name, content), texts)).rows;

it.each([
  [
    'plain.csv',
    'q,a\none,1\ntwo,2\n',
    [
      { q: 'one', a: '1' },
      { q: 'two', a: '2' },
    ],
  ],
  ['no-end.csv', 'q,a\none,1', [{ q: 'one', a: '1' }]],
  [
    'windows.csv',
    'q,a\r\none,1\r\n\r\ntwo,2\r\n',
    [
      { q: 'one', a: '1' },
      { q: 'two', a: '2' },
    ],
  ],
  ['mark.csv', '\uFEFF"q",a\none,1\n', [{ q: 'one', a: '1' }]],
  ['quoted.csv', 'q,a\n"one\n, ""two""",1\n', [{ q: 'one\n, "two"', a: '1' }]],
  [
    'numbers.csv',
    'q,a\n007,1.50\n1e3,\n',
    [
      { q: '007', a: '1.50' },
      { q: '1e3', a: '' },
    ],
  ],
  ['spaces.csv', 'q,a\n one , 1\n', [{ q: ' one ', a: ' 1' }]],
  ['proto.csv', '__proto__x,a\n1,2\n', [{ __proto__x: '1', a: '2' }]],
  ['tabs.tsv', 'q\ta\none, two\t1\n', [{ q: 'one, two', a: '1' }]],
  ['empty.csv', 'q,a\n', []],
])('%s: every cell is the text that was written', async (name, content, rows) => {
  expect(await cells(name, content)).toEqual(rows);
  expect(await cells(`${name}.gz`, gzipSync(content))).toEqual(rows);
});

it('a schema makes numbers of texts', async () => {
  const numbers = z.object({ a: z.coerce.number() });
  expect((await readRecords(file('a.csv', 'a\n1.50\n'), numbers)).rows).toEqual([{ a: 1.5 }]);
});

it.each([
  ['a.csv', 'q,a\none,1\ntwo\n', /a\.csv, record 2: it has 1 values, and the header has 2/],
  ['a.csv', 'q,a\none,1,2\n', /a\.csv, record 1: it has 3 values, and the header has 2/],
  ['a.csv', 'q,a\none,1\n"two,2\n', /a\.csv, record 2: .*quote/i],
  ['a.csv', 'q,q\none,1\n', /a\.csv, record 1: the header has the column "q" twice/],
  ['a.csv', 'q,\none,1\n', /a\.csv, record 1: column 2 of the header has no name/],
  ['a.csv', Buffer.from('q,a\none,1\ncaf\xe9,2\n', 'latin1'), /a\.csv, record 2: it is not UTF-8/],
  ['a.csv', Buffer.from('\uFEFFq,caf\u00e9\none,1\n', 'utf16le'), /a\.csv, record 1: it is not UTF-8/],
  ['a.jsonl', Buffer.from('{"q":"one"}\n{"q":"caf\xe9"}\n', 'latin1'), /a\.jsonl, record 2: it is not UTF-8/],
  ['a.json', Buffer.from('[{"q":"caf\xe9"}]', 'latin1'), /a\.json, record 1: it is not UTF-8/],
  ['a.jsonl', gzipSync('{"q":"one"}\n'), /a\.jsonl, record 1: it is not UTF-8/],
  [
    'a.jsonl',
    `{"q":"one"}\n{"q":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
    /record 2: it has too many objects or arrays/,
  ],
  ['a.csv', '', /a\.csv, record 1: the file has no header/],
  ['a.parquet.gz', '', /a\.parquet\.gz.* give a file of records/],
])('%s: %j is refused', async (name, content, message) => {
  await expect(cells(name, content)).rejects.toThrow(message);
});

it('a header of very many columns is looked over once', { timeout: 60_000 }, async () => {
  const names = Array.from({ length: 400_000 }, (_, n) => `c${n}`);
  await expect(cells('wide.csv', `${names.join(',')},c0\n`)).rejects.toThrow(/the header has the column "c0" twice/);
});

const lines = Array.from({ length: 3000 }, (_, n) => JSON.stringify({ q: `question ${n}` })).join('\n');

it('compressed lines and arrays have the digest of the file as it is', async () => {
  const path = file('a.jsonl.gz', Buffer.concat([gzipSync(lines), gzipSync('\n{"q":"last"}')]));
  const { rows, digest } = await readRecords(path, texts);
  expect([rows.length, rows.at(-1)]).toEqual([3001, { q: 'last' }]);
  expect(digest).toBe(createHash('sha256').update(readFileSync(path)).digest('hex'));
  expect(await cells('a.json.gz', gzipSync('[{"q":"one"}]'))).toEqual([{ q: 'one' }]);
});

it('a compressed file that is cut off, or no gzip, is refused', async () => {
  const whole = gzipSync(lines);
  await expect(cells('a.jsonl.gz', whole.subarray(0, whole.length / 2))).rejects.toThrow(
    /a\.jsonl\.gz, record \d+: (unexpected end of file|.*JSON)/,
  );
  await expect(cells('b.jsonl.gz', lines)).rejects.toThrow(/b\.jsonl\.gz, record 1: incorrect header check/);
});

it('a byte order mark is no part of the first line, and a missing file is no bad record', async () => {
  expect(await cells('a.jsonl', '\uFEFF{"q":"one"}')).toEqual([{ q: 'one' }]);
  await expect(readRecords(join(dir, 'none.csv'), texts)).rejects.toThrow(/ENOENT/);
  await expect(readRecords(join(dir, 'none.csv'), texts)).rejects.not.toBeInstanceOf(BadRecord);
});

it('the first ten bad records are reported together, each by its number', async () => {
  const bad = Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? '{"q":1}' : n === 5 ? '{' : '{"q":"good"}'));
  const error = await readRecords(file('a.jsonl', bad.join('\n')), texts).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(BadRecord);
  const { number, more, message } = error as BadRecord;
  expect([number, ...more.map((one) => one.number)]).toEqual([1, 3, 5, 6, 7, 9, 11, 13, 15, 17]);
  expect(more.map(({ field }) => field)).toEqual(['q', 'q', '', 'q', 'q', 'q', 'q', 'q', 'q']);
  expect(message.split('\n')).toEqual(
    [1, 3, 5, 6, 7, 9, 11, 13, 15, 17].map(
      (n) => expect.stringMatching(new RegExp(`a\\.jsonl, record ${n}${n === 6 ? '' : ', field q'}: .`)) as string,
    ),
  );
});

it.each([
  ['a.jsonl', ''],
  ['b.json', '[]'],
  ['c.csv', 'q,a\n'],
])('%s without a record is no data of tasks, and named', async (name, text) => {
  const split = await readRecords(file(name, text), texts);
  expect(() => recordsDataset({ test: split }, () => ({}) as Task)).toThrow(/[abc]\.\w+: the file has no records/);
});

it('what is no file is refused, also if it could be read without end', async () => {
  mkdirSync(join(dir, 'folder.jsonl'));
  execFileSync('mkfifo', [join(dir, 'pipe.jsonl')]);
  symlinkSync('/dev/zero', join(dir, 'device.csv'));
  for (const name of ['folder.jsonl', 'pipe.jsonl', 'device.csv'])
    await expect(readRecords(join(dir, name), texts)).rejects.toThrow(/give a file of records/);
});

it('a value that begins like a byte order mark is kept', async () => {
  expect(await cells('a.csv', 'q,a\n\uFEFFone,\uFEFF\n')).toEqual([{ q: '\uFEFFone', a: '\uFEFF' }]);
  expect(await cells('b.csv', '\uFEFFa\n1\n')).toEqual([{ a: '1' }]);
});
