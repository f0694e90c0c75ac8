/**
 * SkyRL-Agent's rules for code. Why: records of its `codegen` were filtered by them, and an answer in several blocks, or
 * a number with another last digit, is right there. Asserted: which code is taken, which outputs are alike, what tests
 * in Python say, and that `verdict` chooses these rules.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { allBlocks, gradePythonTests, nearlySameOutput, pythonTestsIn } from '../../../tasks/code/coder1.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import type { TaskContext } from '../../../tasks/environment.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { openBench } from '../../sandboxes/harness.ts';
import { workOf } from '../support/answered.ts';

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

const TWO_SUM = `def check(candidate):
    assert candidate(nums = [2, 7, 11, 15], target = 9) == [0, 1]
    assert candidate(nums = [3, 2, 4], target = 6) == pairs(1, 2)


check(Solution().twoSum)`;
const PREFIX = 'from typing import *\n\ndef pairs(a, b):\n    return [a, b]\n';
const right = `class Solution:
    def twoSum(self, nums: List[int], target: int) -> List[int]:
        seen = {}
        for i, n in enumerate(nums):
            if target - n in seen:
                return [seen[target - n], i]
            seen[n] = i`;
const PROGRAM = `import unittest
from solution import double, Box

class Doubles(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual(double(2), 4)
        self.assertRaises(TypeError, double, None)
    def test_box(self):
        box = Box(3)
        box.fill(4)
        self.assertEqual(box.held, 7)

if __name__ == "__main__":
    unittest.main()`;
const PYTEST = `from solution import *

def test_numbers():
    assert double(2) == 4
    assert double("a") == "aa"

class TestBox:
    def test_box(self):
        box = Box(1)
        box.fill(1)
        assert box.held == 2`;
const doubles = `def double(x): return x + x
class Box:
    def __init__(self, held): self.held = held
    def fill(self, more): self.held += more`;
const fenced = (code: string): string => `\`\`\`python\n${code}\n\`\`\``;
const truthOf = { functional: TWO_SUM, solution_file: PROGRAM, pytest: PYTEST };

let graded = 0;
async function gradedBy(truth: Partial<typeof truthOf>, code: string, prefix = PREFIX): Promise<Verdict> {
  const { provider } = await openBench();
  graded += 1;
  const ctx = { provider, id: `python-tests-${graded}` };
  const problem = pythonTestsIn(JSON.stringify(truth));
  return gradePythonTests(fenced(code), problem!, prefix, { seconds: 5, memoryMiB: 256 }, ctx);
}

describe('tests in Python', { timeout: 300_000 }, () => {
  it.each([
    ['functional', right],
    ['solution_file', doubles],
    ['pytest', doubles],
  ] as const)('%s: right code has 1, wrong code 0', async (kind, code) => {
    const truth = { [kind]: truthOf[kind] };
    expect(await gradedBy(truth, code)).toMatchObject({ code: 'graded', reward: 1 });
    const wrong = code.replace('return [seen[target - n], i]', 'return [i]').replace('x + x', 'x');
    expect(await gradedBy(truth, wrong)).toMatchObject({ code: 'graded', reward: 0 });
  });

  it.each([
    ['a method that is wrong', doubles.replace('+= more', '= more')],
    ['a class that is missing', 'def double(x): return x + x'],
    ['no code that compiles', 'def double(x) return x'],
  ])('of %s are not passed', async (_, code) => {
    expect(await gradedBy({ solution_file: PROGRAM }, code)).toMatchObject({ code: 'graded', reward: 0 });
    expect(await gradedBy({ pytest: PYTEST }, code)).toMatchObject({ code: 'graded', reward: 0 });
  });

  it.each([
    ['ends before them', 'raise SystemExit(0)'],
    ['ends its process', 'import os\nos._exit(0)'],
    ['has their names', `${right.replace('return [', 'return [9, ')}\ndef check(f): pass\ndef pairs(a, b): return 1`],
    [
      'says that all is equal',
      `class All(list):\n    def __eq__(self, other): return True\n${right.replace('return [seen[target - n], i]', 'return All()')}`,
    ],
    ['reads an input that is not there', `${right}\nif __name__ == "__main__":\n    input()`],
  ])('are not passed by code that %s', async (_, code) => {
    expect(await gradedBy({ functional: TWO_SUM }, code)).toMatchObject({ code: 'graded', reward: 0 });
  });

  it('that end with an exit code of their own are passed with 0 alone', async () => {
    const program = (code: string) => ({ solution_file: `from solution import f\nimport sys\nsys.exit(${code})` });
    expect(await gradedBy(program('0 if f() == 1 else 3'), 'def f(): return 1')).toMatchObject({ reward: 1 });
    expect(await gradedBy(program('0 if f() == 1 else 3'), 'def f(): return 2')).toMatchObject({ reward: 0 });
  });

  it.each([
    ['no tests', 'from solution import f\nf()'],
    ['a fixture', 'from solution import f\ndef test_f(tmp_path): assert f() == 1'],
    ['a syntax error', 'def test_f(: pass'],
  ])('with %s are at fault, and not the code', async (_, pytest) => {
    expect(await gradedBy({ pytest }, 'def f(): return 1')).toMatchObject({ code: 'grader-failed' });
  });

  it("are taken in SkyRL-Agent's order, and want its verdict", async () => {
    expect(pythonTestsIn(truthOf)).toMatchObject({ kind: 'functional' });
    expect(pythonTestsIn({ pytest: 'a', solution_file: 'b' })).toEqual({ kind: 'program', source: 'b' });
    expect(pythonTestsIn('{"inputs": ["1"], "outputs": ["1"]}')).toBeUndefined();
    const row = {
      prompt: 'x',
      reward_spec: { ground_truth: JSON.stringify({ functional: TWO_SUM }) },
      solution: right,
    };
    writeFileSync(join(folder, 'two.json'), JSON.stringify([{ ...row, extra_info: { prefix: PREFIX } }]));
    const open = (verdict: string) =>
      new TaskLoader().open({ environment: 'lcb', options: { data: { test: 'two.json' }, verdict }, folder });
    await expect(open('skyrl')).rejects.toThrow(/tests in Python .* need the option verdict: coder1/u);
    const task = await (await open('coder1')).load('test', 0);
    const { provider } = await openBench();
    const ctx = { provider, id: 'coder1-oracle' } as unknown as TaskContext;
    const [oracle] = (await task.oracle?.(ctx)) ?? [];
    expect(await task.grade(ctx, workOf(oracle?.content ?? ''))).toMatchObject({ code: 'graded', reward: 1 });
    expect(await task.grade(ctx, workOf(''))).toMatchObject({ code: 'graded', reward: 0 });
  });
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
