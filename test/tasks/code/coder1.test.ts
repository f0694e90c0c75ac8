/**
 * SkyRL-Agent's rules for code. Why: records of its `codegen` were filtered by them, and an answer in several blocks, or
 * a number with another last digit, is right there. Asserted: which code is taken, which outputs are alike, and that
 * `verdict` chooses them, and that tests in Python are refused.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { allBlocks, nearlySameOutput } from '../../../tasks/code/coder1.ts';
import type { TaskContext } from '../../../tasks/environment.ts';
import { tests } from '../../../tasks/code/lcb.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';

const folder = mkdtempSync(join(tmpdir(), 'longhaul-coder1-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it('joins the blocks after the thoughts', () => {
  expect(allBlocks('```py\nno\n```\n</think> a\n```python\nx = 1\n```\nand\n```\nprint(x)\n```')).toBe(
    'x = 1\nprint(x)',
  );
  expect(allBlocks('```python\nx\n``` </think> none')).toBeUndefined();
  expect(allBlocks('```python x\ny\n```')).toBeUndefined();
  expect(allBlocks('```python\ny```')).toBeUndefined();
  expect(allBlocks('```\n  \n```')).toBeUndefined();
});

it.each([
  ['1.0000005 yes\r\n', '1 YES', true],
  ['1.000002', '1', false],
  ['No', 'Yes', false],
  ['a  b', 'a b', true],
  ['a b', 'A b', false],
  ['1 2', '1', false],
  ['1\n\n2', '1\n2', false],
  ['1_0', '10', true],
  ['inf', 'Infinity', false],
  ['nan', 'NaN', false],
  ['0x10', '16', false],
  ['1e3', '1000', true],
])('%j for %j is %s', (given, expected, isRight) => expect(nearlySameOutput(given, expected)).toBe(isRight));

it('refuses tests that are Python', () => {
  const { error } = tests.safeParse('{"functional": "assert f(1)"}');
  expect(error?.issues[0]?.message).toBe(
    'give a list of tests with input and output, or an object with inputs and outputs',
  );
});

it('decides a problem of standard input, if the verdict says so', async () => {
  const ground_truth = JSON.stringify({ inputs: ['1', '2'], outputs: ['0.3333333', 'YES'] });
  writeFileSync(join(folder, 'one.json'), JSON.stringify([{ prompt: 'x', reward_model: { ground_truth } }]));
  const { provider } = await openBench();
  const answer = '```python\nn = int(input())\n```\nThen:\n```python\nprint(1 / 3 if n == 1 else "yes")\n```';
  const graded = async (verdict: string): Promise<unknown> => {
    const fields = { tests: 'reward_model.ground_truth' };
    const options = { data: { test: 'one.json' }, fields, verdict };
    const dataset = await new TaskLoader().open({ environment: 'lcb', options, folder });
    const task = await dataset.load('test', 0);
    const ctx = { provider, id: `coder1-${verdict}`, execution: 1, key: 'k' } as unknown as TaskContext;
    const end = { transcript: [], finish: 'done', turns: 1, artifact: new Uint8Array(), turnRewards: [] } as const;
    return await task.grade(ctx, { ...end, finish: 'done' as never, state: undefined, answer });
  };
  expect(await graded('coder1')).toMatchObject({ code: 'graded', reward: 1 });
  expect(await graded('skyrl')).toMatchObject({ code: 'graded', reward: 0 });
}, 120_000);
