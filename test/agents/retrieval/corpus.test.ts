/** Corpora: kinds of files, bad records, limits, and files that change while a run uses them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { corpusDigest, openCorpus } from '../../../agents/retrieval/corpus.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-corpus-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const at = (name: string) => ({ path: join(folder, name), k1: 1.2, b: 0.75, maxMiB: 1 });
const lines = (...records: readonly unknown[]) => records.map((one) => JSON.stringify(one)).join('\n');

it('records have text or contents, ids of any name, and their number without one', async () => {
  writeFileSync(
    join(folder, 'a.jsonl'),
    `${lines({ title: 'Apple', text: 'It is red.' }, { id: 7, contents: '"Pear"\nIt is green.' })}\n\n`,
  );
  const corpus = await openCorpus(at('a.jsonl'));
  expect(corpus.search('red', 5)).toMatchObject([{ id: '0', title: 'Apple', text: 'It is red.' }]);
  expect(corpus.get('7')).toEqual({ id: '7', title: '', text: '"Pear"\nIt is green.' });
  expect(corpus.get('8')).toBeUndefined();
});

it('a folder has files of records and texts, in the order of their names', async () => {
  mkdirSync(join(folder, 'docs', 'more'), { recursive: true });
  writeFileSync(join(folder, 'docs', 'b.txt'), 'yellow bananas');
  writeFileSync(join(folder, 'docs', 'more', 'notes.md'), 'purple plums');
  writeFileSync(join(folder, 'docs', 'a.jsonl'), lines({ text: 'yellow lemons' }));
  writeFileSync(join(folder, 'docs', 'image.png'), 'yellow');
  const corpus = await openCorpus(at('docs'));
  expect(corpus.size).toBe(3);
  expect(corpus.search('yellow', 5).map(({ id }) => id)).toEqual(['0', 'b.txt']);
  expect(corpus.search('plums', 5)).toMatchObject([{ id: 'more/notes.md', title: 'notes' }]);
});

it.each([
  ['no JSON', '{"text": "a"}\nnot json', /record 2.*give a line of JSON/],
  ['no text', lines({ text: 'a' }, { title: 'b' }), /record 2, field text.*give a text, as text, or contents/],
  ['no object', lines('a'), /record 1.*give an object/],
  ['empty', '\n', /give at least one passage/],
])('a bad corpus is refused with its place: %s', async (_name, text, message) => {
  writeFileSync(join(folder, 'a.jsonl'), text);
  await expect(openCorpus(at('a.jsonl'))).rejects.toThrow(message);
});

it('what is missing, of another kind or too large is refused', async () => {
  await expect(openCorpus(at('none.jsonl'))).rejects.toThrow(/give a file or a folder that exists/);
  writeFileSync(join(folder, 'a.csv'), 'x');
  await expect(openCorpus(at('a.csv'))).rejects.toThrow(/give files of the kinds .jsonl/);
  writeFileSync(join(folder, 'a.jsonl'), lines({ text: 'a'.repeat(2000) }));
  await expect(openCorpus({ ...at('a.jsonl'), maxMiB: 0.001 })).rejects.toThrow(
    /raise maxMiB \(0.001\), or use a retrieval server/,
  );
});

it('is opened once, and files that have changed fail as data-changed', async () => {
  writeFileSync(join(folder, 'a.jsonl'), lines({ text: 'one' }));
  const digest = await corpusDigest(at('a.jsonl'));
  const corpus = await openCorpus(at('a.jsonl'), digest);
  expect(corpus.digest).toBe(digest);
  expect(await openCorpus(at('a.jsonl'), digest)).toBe(corpus);
  writeFileSync(join(folder, 'a.jsonl'), lines({ text: 'one' }, { text: 'two' }));
  await expect(openCorpus(at('a.jsonl'), digest)).rejects.toMatchObject({ name: 'DataChanged' });
  expect((await openCorpus(at('a.jsonl'))).size).toBe(2);
});
