/**
 * Hunts stages that train on wrong sequences, and hours of training whose result cannot be written.
 * Not asserted: the result of training; see test/trainer/sft.test.ts.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runCommandLine } from '../../../cli/run.ts';
import { packageRoot } from '../../../scripts/setup/paths.mjs';
import { firstsOf } from '../../../recipes/sft/prepare-sft.ts';
import type { SftEnd } from '../../../recipes/sft/run-sft.ts';

const stage = (data: 'drills' | 'clean' | 'mixed', steps: number, first?: number) => ({
  data,
  steps,
  batchSize: 32,
  learningRate: 1e-3,
  warmup: 0,
  schedule: 'cosine' as const,
  finalRate: 0,
  ...(first === undefined ? {} : { first }),
});

it('continue after the last stage of their kind, or start at the given number', () => {
  expect(
    firstsOf([
      stage('clean', 10),
      stage('drills', 5),
      stage('clean', 2),
      stage('clean', 1, 9000),
      stage('clean', 1),
      stage('drills', 1),
    ]),
  ).toEqual([0, 0, 320, 9000, 9032, 160]);
});

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul sft-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

interface Document extends Partial<SftEnd> {
  readonly error?: Record<string, unknown>;
}

async function sft(settings: object, signal = new AbortController().signal, options: readonly string[] = []) {
  const file = join(dir, 'mine.yaml');
  writeFileSync(
    file,
    JSON.stringify({
      out: 'made',
      initial: join(packageRoot, 'examples', 'starter'),
      data: { clean: { generate: 'starter/clean' } },
      stages: [{ data: 'clean', steps: 2, batchSize: 1, learningRate: 1e-5 }],
      ...settings,
    }),
  );
  let out = '';
  const around = {
    out: (text: string) => {
      out += text;
    },
    err: () => undefined,
    env: process.env,
    cwd: dir,
    signal,
  };
  const exitCode = await runCommandLine(['sft', file, '--json', ...options], around);
  return { exitCode, document: JSON.parse(out) as Document };
}

it('a folder with files is refused before any training, and its files stay', async () => {
  const made = await sft({});
  expect(made).toMatchObject({ exitCode: 0, document: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string } });
  const files = readdirSync(join(dir, 'made'));
  const error = { name: 'UserInputError', field: 'out', value: join(dir, 'made') };
  expect(await sft({ seed: 2 })).toMatchObject({ exitCode: 2, document: { error } });
  expect(readdirSync(join(dir, 'made'))).toEqual(files);
  expect(await sft({ out: 'mine.yaml' })).toMatchObject({ exitCode: 2, document: { error: { field: 'out' } } });
  mkdirSync(join(dir, 'empty'));
  expect(await sft({ out: 'empty', initial: 'made' })).toMatchObject({ exitCode: 0 });
});

it.each([[[]], [['--dry-run']]])('a folder that cannot be made is refused before any training: %j', async (options) => {
  const refused = await sft({ out: '/proc/policy' }, undefined, options);
  expect(refused).toMatchObject({
    exitCode: 2,
    document: {
      error: {
        field: 'out',
        value: '/proc/policy',
        remedy: expect.stringContaining('give a folder that this user can make (--out DIR): ') as string,
      },
    },
  });
});

it('a missing initial policy is refused by its field', async () => {
  expect(await sft({ initial: 'nowhere' })).toMatchObject({
    exitCode: 2,
    document: { error: { field: 'initial', value: join(dir, 'nowhere') } },
  });
});

it('Ctrl-C ends training after the running step: no policy is written, and the same command continues', async () => {
  const stages = [{ steps: 3, batchSize: 1, learningRate: 1e-5 }];
  expect(await sft({ stages }, AbortSignal.abort())).toMatchObject({
    exitCode: 130,
    document: { error: { name: 'Interrupted', message: expect.stringContaining('after step 1 is saved') as string } },
  });
  expect(existsSync(join(dir, 'made'))).toBe(false);
  expect(readdirSync(join(dir, 'made.states'))).toEqual(['step-1']);
  const off = { stages, out: 'off', checkpoint: { every: 0 } };
  expect(await sft(off, AbortSignal.abort())).toMatchObject({
    exitCode: 130,
    document: { error: { message: expect.stringContaining('nothing was written') as string } },
  });
  expect(readdirSync(dir)).toEqual(['made.states', 'mine.yaml']);
  const [whole, continued] = [await sft(off), await sft({ stages })];
  expect(continued).toMatchObject({ exitCode: 0, document: { resumedFrom: 1, sha256: whole.document.sha256 } });
  expect(readdirSync(dir)).toEqual(['made', 'mine.yaml', 'off']);
});

const MODEL = { layers: 1, hidden: 16, heads: 2, kvHeads: 1, headDim: 8, intermediate: 16, maxPositions: 64 };
const sum = (a: number, b: number) => ({ question: `How much is ${a} plus ${b}?`, answer: `${a + b}` });

/** A new policy from pairs of one file and chats of another. */
function fromRecords(change: object = {}) {
  const rows = Array.from({ length: 24 }, (_, i) => sum(i, (i * 7) % 5));
  writeFileSync(join(dir, 'pairs.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return {
    initial: undefined,
    model: MODEL,
    tokenizer: { size: 320 },
    data: {
      pairs: { files: 'pairs.jsonl', prompt: 'question', evaluation: { share: 0.25 } },
      chats: { files: join(import.meta.dirname, 'fixtures', 'chats.parquet'), loss: 'last' },
    },
    maxTokens: 64,
    tooLong: 'skip',
    packing: true,
    evaluation: { every: 2 },
    checkpoint: { every: 1 },
    stages: [
      { data: 'pairs', epochs: 1, batchSize: 4, learningRate: 1e-2, warmup: 1 },
      { data: 'chats', steps: 1, batchSize: 2, learningRate: 1e-3 },
    ],
    ...change,
  };
}

it('a policy from records: killed after any step, training ends in the same bits and the same evaluations', async () => {
  const { document: whole } = await sft(fromRecords({ out: 'whole' }));
  expect(whole).toMatchObject({
    stages: [
      { data: 'pairs', steps: 5 },
      { data: 'chats', steps: 1 },
    ],
    data: {
      pairs: { train: { records: 18 }, evaluation: { records: 6 } },
      chats: { train: { records: 4, skipped: 1 } },
    },
    vocabulary: 320,
  });
  expect(whole.evaluations?.map(({ steps }) => steps)).toEqual([0, 2, 4, 6]);
  const [first, last] = [whole.evaluations?.[0], whole.evaluations?.at(-1)];
  expect(last?.loss).toBeLessThan(first?.loss ?? 0);
  for (let steps = 1; steps < 6; steps += 1)
    expect(await sft(fromRecords(), AbortSignal.abort())).toMatchObject({ exitCode: 130 });
  const { document: killed } = await sft(fromRecords());
  expect(killed).toMatchObject({ sha256: whole.sha256, evaluations: whole.evaluations, tokens: whole.tokens });
  expect(killed.resumedFrom).toBe(5);
  expect(readdirSync(join(dir, 'made')).toSorted()).toEqual([
    'config.json',
    'longhaul.json',
    'model.safetensors',
    'tokenizer.json',
    'tokenizer_config.json',
  ]);
  // The policy is one that training takes.
  const more = { initial: 'made', model: undefined, tokenizer: undefined, out: 'more' };
  expect(await sft(fromRecords(more))).toMatchObject({ exitCode: 0, document: { parameters: whole.parameters } });
});

it('saved states of other settings or other records are refused, and settings without effect on bits are free', async () => {
  expect(await sft(fromRecords(), AbortSignal.abort())).toMatchObject({ exitCode: 130 });
  const other = {
    exitCode: 2,
    document: { error: { field: 'out', remedy: expect.stringMatching(/made\.states/) as string } },
  };
  expect(await sft(fromRecords({ seed: 2 }))).toMatchObject(other);
  expect(await sft(fromRecords({ weightDecay: 0.5 }))).toMatchObject(other);
  const settings = fromRecords({ checkpoint: { every: 3, keep: true }, evaluation: { every: 3 } });
  expect(await sft(settings)).toMatchObject({ exitCode: 0, document: { resumedFrom: 1 } });
  expect(readdirSync(join(dir, 'made.states')).toSorted()).toEqual(['step-1', 'step-3']);
});

it('--dry-run reads every record and writes nothing', async () => {
  const planned = await sft(fromRecords(), undefined, ['--dry-run', '--set', 'seed=3']);
  expect(planned).toMatchObject({ exitCode: 0, document: { stages: [{ steps: 5 }, { steps: 1 }] } });
  expect(readdirSync(dir)).toEqual(['mine.yaml', 'pairs.jsonl']);
});

it('a bad record is refused by file, number and field before any training', async () => {
  const settings = fromRecords();
  writeFileSync(join(dir, 'pairs.jsonl'), `${JSON.stringify(sum(1, 2))}\n{"question": "x"}\n`);
  const error = { name: 'BadRecord', file: join(dir, 'pairs.jsonl'), number: 2, field: 'answer' };
  expect(await sft(settings)).toMatchObject({ exitCode: 2, document: { error } });
  expect(readdirSync(dir)).toEqual(['mine.yaml', 'pairs.jsonl']);
});

it('a file without records is refused by its setting, and not the tokenizer', async () => {
  const settings = fromRecords();
  writeFileSync(join(dir, 'pairs.jsonl'), '');
  expect(await sft(settings, undefined, ['--dry-run'])).toMatchObject({
    exitCode: 2,
    document: {
      error: {
        name: 'UserInputError',
        field: 'data.pairs.files',
        message: expect.stringContaining('pairs.jsonl') as string,
      },
    },
  });
});

it.each<[object, string, RegExp]>([
  [{ model: undefined }, 'initial', /either `initial` or `model`/],
  [{ data: {} }, 'stages.0.data', /give a name of `data`/],
  [{ data: { pairs: { files: 'nowhere.jsonl' }, chats: {} } }, 'data.chats.files', /either `files` or `generate`/],
  [{ data: { pairs: { files: 'nowhere.jsonl' }, chats: { files: 'pairs.jsonl' } } }, 'data.pairs.files', /can be read/],
  [{ stages: [{ data: 'pairs', batchSize: 1, learningRate: 1 }] }, 'stages.0.steps', /either `steps` or `epochs`/],
  [
    { data: { d: { generate: 'starter/clean' } }, stages: [{ epochs: 1, batchSize: 1, learningRate: 1 }] },
    'stages.0.epochs',
    /give steps/,
  ],
  [{ data: { d: { generate: 'starter/clean', evaluation: { share: 0.1 } } } }, 'data.d.evaluation', /leave it out/],
  [{ maxTokens: 65 }, 'maxTokens', /at most 64/],
  [{ tokenizer: { size: 200 } }, 'tokenizer.size', /at least 263/],
  [{ initial: 'x', model: undefined }, 'tokenizer', /leave it out/],
])('%# %j is refused at %s', async (change, field, remedy) => {
  expect(await sft(fromRecords(change))).toMatchObject({
    exitCode: 2,
    document: { error: { field, remedy: expect.stringMatching(remedy) as string } },
  });
});
