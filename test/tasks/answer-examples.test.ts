/** The example configurations of answers in text, by `longhaul check --oracle`, and published records by their graders. */

import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCommandLine } from '../../cli/run.ts';
import { gsm8k } from '../../tasks/math/gsm8k.ts';
import { gsm8kMultiTurn } from '../../tasks/math/gsm8k-multi-turn.ts';
import { math } from '../../tasks/math/math.ts';
import type { Environment } from '../../tasks/environment.ts';
import { resolveOptions } from '../../modules/options.ts';
import { answered } from './support/answered.ts';

const root = join(import.meta.dirname, '../..');

interface Checked {
  readonly sources: ReadonlyArray<{ readonly bad: number }>;
  readonly graders: {
    readonly policies: ReadonlyArray<{ readonly policy: string; readonly rollouts: number; readonly right: number }>;
    readonly withoutOracle: number;
  } | null;
}

test.each(['gsm8k', 'gsm8k-multi-turn', 'aime', 'math', 'qa'])('examples/tasks/%s.yaml', async (name) => {
  let out = '';
  const code = await runCommandLine(['check', `examples/tasks/${name}.yaml`, '--oracle', '--json'], {
    out: (said) => void (out += said),
    err: () => undefined,
    env: process.env,
    cwd: root,
    signal: new AbortController().signal,
  });
  const { sources, graders } = JSON.parse(out) as Checked;
  expect(sources).toMatchObject([{ bad: 0 }]);
  expect(graders?.withoutOracle).toBe(0);
  for (const { rollouts, right } of graders?.policies ?? []) {
    expect(rollouts).toBeGreaterThanOrEqual(16);
    expect(right).toBe(rollouts);
  }
  expect(code).toBe(0);
});

const fixture = (path: string): string => join(import.meta.dirname, 'fixtures', path);
const PUBLISHED: ReadonlyArray<readonly [string, Environment, Readonly<Record<string, unknown>>, number]> = [
  ['GSM8K', gsm8k as Environment, { data: { test: fixture('gsm8k/test.jsonl') } }, 8],
  ['GSM8K by SkyRL', gsm8k as Environment, { data: { test: fixture('gsm8k/test.jsonl') }, verdict: 'skyrl' }, 8],
  [
    'expressions',
    math as Environment,
    { data: { test: fixture('math/judged.jsonl') }, fields: { answer: 'expected_answer' } },
    5,
  ],
];

test.each(PUBLISHED)('%s: gold solutions score 1, and empty answers 0', async (_, environment, options, size) => {
  const given = resolveOptions(environment, options, 'task.options');
  const dataset = await environment.open(given, { path: (_name, path) => path });
  expect(dataset.splits).toEqual({ test: size });
  for (let n = 0; n < size; n += 1) {
    const task = await dataset.load('test', n);
    const [gold] = (await task.oracle?.({ key: '', signal: new AbortController().signal })) ?? [];
    expect(await answered(task, gold?.content ?? '')).toMatchObject({ reward: 1, passed: true });
    expect(await answered(task, '')).toMatchObject({ reward: 0, passed: false });
  }
});

test('a task of several tries has no sandbox, and a step', async () => {
  const given = resolveOptions(gsm8kMultiTurn as Environment, { data: { test: fixture('gsm8k/test.jsonl') } }, 'x');
  const dataset = await gsm8kMultiTurn.open(given as never, { path: (_name, path) => path });
  const task = await dataset.load('test', 0);
  expect(task).toMatchObject({ tools: [], gradedIn: 'none', step: expect.any(Function) as unknown });
});
