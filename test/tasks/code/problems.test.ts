/**
 * Real records of HumanEval and MBPP: their own solutions score 1, wrong ones 0. Each was chosen for what its tests need:
 * calls whose arguments depend on answers (33), helpers of the prompt (38), a function with the name of a built-in one
 * (126), objects of the solution's own class (367), a type as an argument (533).
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Dataset, type Task, type TaskContext } from '../../../tasks/environment.ts';
import { tests } from '../../../tasks/code/lcb.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';

const folder = join(import.meta.dirname, 'fixtures');
const { provider } = await openBench();
const LONG = 300_000;
let grades = 0;

const open = (environment: string, file: string, options: Record<string, unknown> = {}): Promise<Dataset> =>
  new TaskLoader().open({ environment, options: { data: { test: file }, ...options }, folder });

async function graded(task: Task, answer: string) {
  grades += 1;
  const ctx = { provider, id: `problem-${grades}`, execution: 1, key: 'k' } as unknown as TaskContext;
  const work = {
    transcript: [],
    finish: 'done' as never,
    turns: 1,
    artifact: new Uint8Array(),
    turnRewards: [],
    state: undefined,
  };
  return task.grade(ctx, { ...work, answer });
}

const oracleOf = async (task: Task): Promise<string> =>
  (await task.oracle!({ key: 'k', signal: new AbortController().signal }))[0]!.content;

describe.each(['humaneval', 'mbpp'])('%s', (name) => {
  it('gives 1 to the solutions of its records, and 0 to what is wrong', { timeout: LONG }, async () => {
    const dataset = await open(name, `${name}.jsonl`);
    const count = dataset.splits['test']!;
    const verdicts = await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const task = await dataset.load('test', i);
        const right = await graded(task, await oracleOf(task));
        return [right.code === 'graded' ? right.reward : right.reason, dataset.label?.('test', i)];
      }),
    );
    expect(verdicts.map(([reward]) => reward)).toEqual(verdicts.map(() => 1));
    const task = await dataset.load('test', 0);
    expect(await graded(task, '')).toMatchObject({ code: 'graded', reward: 0 });
    expect(await graded(task, 'I do not know.')).toMatchObject({ code: 'graded', reward: 0 });
  });
});

describe("the example of HumanEval's evaluator", () => {
  it('has the known result: 3 of 6 samples pass', { timeout: LONG }, async () => {
    const task = await (await open('humaneval', 'example_problem.jsonl', { seconds: 3 })).load('test', 0);
    const samples = readFileSync(join(folder, 'example_samples.jsonl'), 'utf8').trim().split('\n');
    const verdicts = await Promise.all(
      samples.map((line) => graded(task, (JSON.parse(line) as { completion: string }).completion)),
    );
    expect(verdicts.map((verdict) => (verdict.code === 'graded' ? verdict.reward : verdict.reason))).toEqual([
      0, 0, 0, 1, 1, 1,
    ]);
  });

  it('is graded in a fence, and whole, too', { timeout: LONG }, async () => {
    const task = await (await open('humaneval', 'example_problem.jsonl')).load('test', 0);
    for (const answer of ['```python\ndef return1():\n    return 1\n```', '```\nreturn 1\n```'])
      expect(await graded(task, answer)).toMatchObject({ reward: 1 });
  });
});

describe('a record of lcb', () => {
  it.each<[unknown, RegExp]>([
    ['[', /must be JSON/u],
    [[], /at least one test/u],
    [[{ input: '1', output: '1', testtype: 'functional', metadata: {} }], /func_name/u],
    [
      [{ input: 'x', output: '1', testtype: 'functional', metadata: { func_name: 'f' } }],
      /test 0: each line of input/u,
    ],
    [{ inputs: ['1'], outputs: [] }, /the same length/u],
    [{ inputs: ['1'], outputs: ['x'], fn_name: 'f' }, /test 0: output must be JSON/u],
  ])('is refused with %j', (given, message) => {
    expect(tests.safeParse(given).error?.message).toMatch(message);
  });

  it('may have its tests as text, as a list or as columns', () => {
    const list = [{ input: ['1', '2'], output: '3', testtype: 'stdin', metadata: {} }];
    const expected = { inputs: ['1\n2'], outputs: ['3'] };
    expect(tests.parse(list)).toEqual(expected);
    expect(tests.parse(JSON.stringify(list))).toEqual(expected);
    expect(tests.parse({ inputs: ['1\n2'], outputs: ['3'] })).toEqual(expected);
    expect(tests.parse({ inputs: ['1'], outputs: ['NaN'], fn_name: 'f' }).function).toBe('f');
  });
});
