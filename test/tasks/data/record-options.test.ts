import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { openRecords, recordOptions } from '../../../tasks/data/record-options.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-records-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

const schema = z.strictObject({ ...recordOptions });
const row = z.object({ question: z.string(), answer: z.string() });
const write = (name: string, ...records: readonly unknown[]): Promise<void> =>
  writeFile(join(folder, name), records.map((record) => JSON.stringify(record)).join('\n'));

const open = (options: unknown) =>
  openRecords(schema.parse(options), { path: (_name, path) => join(folder, path) }, row, ({ question, answer }) => ({
    messages: [{ role: 'user', content: question }],
    tools: [],
    grade: async () => await Promise.resolve({ code: 'graded', reward: 0, passed: false, reason: answer }),
  }));

test('several files of a split follow each other, and fields are taken from where they are', async () => {
  await write('a.jsonl', { text: 'one', gold: { value: '1' } });
  await write('b.jsonl', { text: 'two', gold: { value: '2' } });
  const dataset = await open({
    data: { train: ['a.jsonl', 'b.jsonl'], test: 'b.jsonl' },
    fields: { question: 'text', answer: 'gold.value' },
  });
  expect(dataset.splits).toEqual({ train: 2, test: 1 });
  expect((await dataset.load('train', 1)).messages).toEqual([{ role: 'user', content: 'two' }]);
});

test('a file without records is named, also beside others', async () => {
  await write('a.jsonl', { question: 'one', answer: '1' });
  await write('none.jsonl');
  await expect(open({ data: { train: ['a.jsonl', 'none.jsonl'] } })).rejects.toThrow(
    `${join(folder, 'none.jsonl')}: the file has no records`,
  );
});

test('the digest depends on the records, their order and the fields', async () => {
  await write('a.jsonl', { question: 'one', answer: '1', other: 'x' });
  await write('b.jsonl', { question: 'two', answer: '2', other: 'y' });
  const digests = [
    { data: { train: 'a.jsonl' } },
    { data: { train: 'b.jsonl' } },
    { data: { train: ['a.jsonl', 'b.jsonl'] } },
    { data: { train: ['b.jsonl', 'a.jsonl'] } },
    { data: { test: 'a.jsonl' } },
    { data: { train: 'a.jsonl' }, fields: { answer: 'other' } },
  ];
  const found = await Promise.all(digests.map(async (options) => (await open(options)).digest));
  expect(new Set(found).size).toBe(digests.length);
});

test('a record without a field is named by file, number and field', async () => {
  await write('a.jsonl', { question: 'one', answer: '1' }, { question: 'two', gold: '2' });
  await expect(open({ data: { train: 'a.jsonl' } })).rejects.toThrow(/a\.jsonl, record 2, field answer/);
});
