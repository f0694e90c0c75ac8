/** Hunts evaluation on what is trained on, records that an epoch leaves out, and sequences that are too long. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { openRecords, type RecordSettings, type TooLong } from '../../../recipes/sft/record-source.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';

const tokenizer = await loadTokenizer(join(packageRoot, 'examples', 'starter'));
let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-records-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function file(name: string, answers: readonly string[]): string {
  const path = join(dir, name);
  writeFileSync(path, answers.map((answer) => `${JSON.stringify({ prompt: 'q', answer })}\n`).join(''));
  return path;
}

const settings = { messages: 'messages', prompt: 'prompt', answer: 'answer', loss: 'all' } as const;
const open = (records: Partial<RecordSettings>, maxTokens = 100, tooLong: TooLong = 'refuse', seed = 1) =>
  openRecords('chats', { ...settings, files: [], ...records }, { tokenizer, maxTokens, tooLong, seed });

const textOf = ({ tokens }: { readonly tokens: readonly number[] }): string => tokenizer.decode(tokens);
const answers = Array.from({ length: 30 }, (_, i) => `a${i}a`);
type Source = Awaited<ReturnType<typeof open>>;
const trained = (source: Source, epoch: number): string[] =>
  Array.from({ length: source.size }, (_, i) => source.sequences(epoch * source.size + i).map(textOf)).flat();

it('an epoch has every record once, each epoch and each seed in an order of its own', async () => {
  const path = file('a.jsonl', answers);
  const source = await open({ files: [path] });
  const [first, second] = [trained(source, 0), trained(source, 1)];
  const text = (answer: string): string => `<|user|>q<|im_end|><|assistant|>${answer}<|im_end|>`;
  expect(first.toSorted()).toEqual(answers.map(text).toSorted());
  expect(second.toSorted()).toEqual(first.toSorted());
  expect(second).not.toEqual(first);
  expect(trained(await open({ files: [path] }), 0)).toEqual(first);
  expect(trained(await open({ files: [path] }, 100, 'refuse', 2), 0)).not.toEqual(first);
});

it('a share of the records is kept from training, and equal records are on the same side', async () => {
  const path = file('a.jsonl', [...answers, ...answers]);
  const source = await open({ files: [path], evaluation: { share: 0.2 } });
  const evaluated = source.evaluationSequences.map(textOf);
  expect(new Set(evaluated).size).toBe(6);
  expect([source.evaluation.records, source.train.records]).toEqual([12, 48]);
  expect(trained(source, 0).filter((text) => evaluated.includes(text))).toEqual([]);
  const other = await open({ files: [path], evaluation: { share: 0.2 } }, 100, 'refuse', 2);
  expect(other.evaluationSequences.map(textOf)).not.toEqual(evaluated);
});

it('records of the evaluation that the training files have too are not trained on', async () => {
  const files = [file('a.jsonl', answers)];
  const source = await open({ files, evaluation: { files: [file('b.jsonl', ['a3a', 'new'])] } });
  expect(source.evaluationSequences.map(textOf).join()).toContain('new');
  expect(source.size).toBe(29);
  expect(trained(source, 0).join()).not.toContain('>a3a<');
});

it('a record that is too long is named, left out, or cut', async () => {
  const files = [file('a.jsonl', ['b', 'a long answer that goes on', 'c'])];
  await expect(open({ files }, 12)).rejects.toThrow(/a\.jsonl, record 2: it has \d+ tokens, of at most 12/);
  const skipped = await open({ files }, 12, 'skip');
  expect([skipped.size, skipped.train.skipped, skipped.train.records]).toEqual([2, 1, 3]);
  const cut = await open({ files }, 12, 'cut');
  expect(trained(cut, 0)).toHaveLength(3);
  expect(Math.max(...[0, 1, 2].flatMap((n) => cut.sequences(n).map(({ tokens }) => tokens.length)))).toBe(12);
});

it('a digest changes with a record', async () => {
  const digest = async (list: readonly string[]) => (await open({ files: [file('a.jsonl', list)] })).digest;
  const first = await digest(['a', 'b']);
  expect(await digest(['a', 'b'])).toBe(first);
  expect(await digest(['a', 'c'])).not.toBe(first);
});
