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

async function sft(settings: object, signal = new AbortController().signal) {
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
  const exitCode = await runCommandLine(['sft', file, '--json'], around);
  return { exitCode, document: JSON.parse(out) as { sha256?: string; error?: Record<string, unknown> } };
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

it('a missing initial policy is refused by its field', async () => {
  expect(await sft({ initial: 'nowhere' })).toMatchObject({
    exitCode: 2,
    document: { error: { field: 'initial', value: join(dir, 'nowhere') } },
  });
});

it('Ctrl-C ends training after the running step, and nothing is written', async () => {
  expect(await sft({}, AbortSignal.abort())).toMatchObject({
    exitCode: 130,
    document: { error: { name: 'Interrupted', message: expect.stringContaining('nothing was written') as string } },
  });
  expect(existsSync(join(dir, 'made'))).toBe(false);
});
