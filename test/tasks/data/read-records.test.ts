/** Hunts a bad record that is used, or that is reported without its file, number and field. */

import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { readRecords } from '../../../tasks/data/read-records.ts';
import { recordsDataset } from '../../../tasks/data/records-dataset.ts';

const schema = z.object({ question: z.string(), level: z.int() });
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-records-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function file(name: string, content: string | Uint8Array): string {
  writeFileSync(join(dir, name), content);
  return join(dir, name);
}

const rows = [
  { question: 'one\u2028 two', level: 1 },
  { question: 'zwei', level: 2 },
];
const lines = rows.map((row) => JSON.stringify(row));

it.each([
  ['a.jsonl', `${lines.join('\n')}\n`],
  ['no-end.jsonl', lines.join('\n')],
  ['windows.ndjson', `${lines.join('\r\n\r\n')}\r\n`],
  ['b.json', JSON.stringify(rows)],
])('%s: reads every record', async (name, text) => {
  expect((await readRecords(file(name, text), schema)).rows).toEqual(rows);
});

const fixture = (name: string) => join(import.meta.dirname, '../fixtures', name);

it('Parquet: reads the rows of every row group, in order', async () => {
  const { rows: read, digest } = await readRecords(fixture('zstd.parquet'), schema);
  expect(read).toEqual([...rows, ...rows, ...rows]);
  expect(digest).toBe(
    createHash('sha256')
      .update(readFileSync(fixture('zstd.parquet')))
      .digest('hex'),
  );
});

it('Parquet: a bad row, or a damaged file, is refused by its name', async () => {
  await expect(readRecords(fixture('a-null.parquet'), schema)).rejects.toThrow(
    /a-null\.parquet, record 2, field level: /,
  );
  await expect(readRecords(file('no.parquet', 'question,level'), schema)).rejects.toThrow(
    /no\.parquet, record 1: .*parquet/i,
  );
});

it('Parquet: a file whose reader throws where nobody can catch it is refused, and the process goes on', async () => {
  const bytes = Buffer.from(readFileSync(fixture('a-null.parquet')));
  // A column that the schema does not know is found while the page before it, which is damaged, is being read.
  bytes.write('Level', bytes.indexOf('level'));
  bytes[4] = 0xff;
  const uncaught: unknown[] = [];
  const note = (error: unknown) => uncaught.push(error);
  process.on('unhandledRejection', note);
  try {
    await expect(readRecords(file('torn.parquet', bytes), schema)).rejects.toThrow(/torn\.parquet, record 1: /u);
    await new Promise((resolve) => setTimeout(resolve, 200));
  } finally {
    process.off('unhandledRejection', note);
  }
  expect(uncaught).toEqual([]);
});

it('a digest changes with any byte, and with nothing else', async () => {
  const digestOf = async (text: string) => (await readRecords(file('a.jsonl', text), schema)).digest;
  const digest = await digestOf(lines.join('\n'));
  expect(await digestOf(lines.join('\n'))).toBe(digest);
  expect(await digestOf(`${lines.join('\n')}\n`)).not.toBe(digest);
  expect(digest).toMatch(/^[0-9a-f]{64}$/u);
});

it.each([
  ['a.jsonl', `${lines[0]}\n\n{"question": 3, "level": 1}\n`, /a\.jsonl, record 3, field question: .*string/],
  ['a.jsonl', `${lines[0]}\n{"question": "q", "level": 1.5}\n`, /record 2, field level/],
  ['a.jsonl', `${lines[0]}\n{"question": "q"\n`, /a\.jsonl, record 2: .*JSON/],
  ['a.json', JSON.stringify([rows[0], { level: 1 }]), /a\.json, record 2, field question/],
  ['a.json', '{"rows": []}', /a\.json, record 1: the file must have one JSON array/],
  ['a.yaml', 'question: 1', /file: .*a\.yaml.* give a file of records: \.jsonl, .*\.csv.* or \.parquet/],
])('%s: %# is refused by file, number and field', async (name, text, message) => {
  await expect(readRecords(file(name, text), schema)).rejects.toThrow(message);
});

it('a dataset of records has their splits and digests, and no task beyond them', async () => {
  const train = await readRecords(file('train.jsonl', lines.join('\n')), schema);
  const test = await readRecords(file('test.jsonl', lines[0] ?? ''), schema);
  const of = (splits: Parameters<typeof recordsDataset<z.output<typeof schema>>>[0]) =>
    recordsDataset(
      splits,
      ({ question }, split, index) => ({
        family: `${split} ${index}`,
        messages: [{ role: 'user', content: question }],
        tools: [],
        grade: () => Promise.resolve({ code: 'graded', reward: 1, passed: true, reason: '' }),
      }),
      ({ level }) => `level ${level}`,
    );
  const dataset = of({ train, test });
  expect(dataset.splits).toEqual({ train: 2, test: 1 });
  expect(dataset.label?.('train', 1)).toBe('level 2');
  expect(await dataset.load('train', 1)).toMatchObject({ family: 'train 1', messages: [{ content: 'zwei' }] });
  await expect(dataset.load('test', 1)).rejects.toThrow(/there is no task/);
  expect(of({ train, test }).digest).toBe(dataset.digest);
  expect(of({ train: test, test: train }).digest).not.toBe(dataset.digest);
});
