/** Hunts a reward file, an output or a step that is read otherwise than upstream reads it. */
import { expect, it } from 'vitest';
import {
  belowMin,
  floatOf,
  rewardsOf,
  rewardsOfPytest,
  rewardsOfSteps,
  rewardsOfSweBench,
  verdictOf,
} from '../../../tasks/harbor/rewards.ts';
import type { ReadResult } from '../../../sandboxes/sandbox.ts';

const file = (content: string | Buffer): ReadResult => ({ kind: 'file', content: Buffer.from(content) });
const missing: ReadResult = { kind: 'missing' };
const read = (json: ReadResult, text: ReadResult = missing) => rewardsOf(json, text).rewards;

it('reward.json counts first: a finite number, or an object of finite numbers', () => {
  expect(read(file('0.5'), file('1'))).toEqual({ reward: 0.5 });
  expect(read(file(' 1 '))).toEqual({ reward: 1 });
  expect(read(file('{"reward": 1, "time": 2.5}'), file('0'))).toEqual({ reward: 1, time: 2.5 });
  expect(read(file('{"correctness": 1, "performance": 0.5}'))).toEqual({ correctness: 1, performance: 0.5 });
  expect(read(file('-3e2'))).toEqual({ reward: -300 });
});

it('a reward.json that is none leaves the word to reward.txt', () => {
  const none = [
    '',
    'NaN',
    'Infinity',
    '1e999',
    'true',
    '"1"',
    '[1]',
    'null',
    '{}',
    '{"reward": true}',
    '{"reward": "1"}',
  ];
  const more = ['{"reward": 1, "b": null}', '{"reward": NaN}', '{"reward": 1e999}', '{"a": {"b": 1}}', '{"reward": 1'];
  for (const text of [...none, ...more]) {
    expect(read(file(text), file('0.25')), text).toEqual({ reward: 0.25 });
    expect(read(file(text)), text).toEqual({ reward: 0 });
  }
  expect(read(file(Buffer.from([0x31, 0xff])), file('0.25'))).toEqual({ reward: 0.25 });
  expect(read({ kind: 'too-large', bytes: 2 << 20 }, file('0.25'))).toEqual({ reward: 0.25 });
  expect(read({ kind: 'directory', entries: [] }, file('1'))).toEqual({ reward: 1 });
});

it('reward.txt is a finite number as Python reads one; anything else is 0', () => {
  for (const [text, value] of [
    ['1', 1],
    ['0.5\n', 0.5],
    [' -2 ', -2],
    ['1e-2', 0.01],
    ['.5', 0.5],
    ['5.', 5],
    ['1_000', 1000],
    ['+1', 1],
  ] as const)
    expect(floatOf(text), text).toBe(value);
  for (const text of [
    '',
    'nan',
    'inf',
    '-Infinity',
    '1e999',
    '0x10',
    '1,5',
    '1 1',
    'true',
    '_1',
    '1__0',
    '1_',
    '.',
    '1e',
  ])
    expect(floatOf(text), text).toBeUndefined();
  expect(read(missing, file(''))).toEqual({ reward: 0 });
  expect(read(missing, file('one'))).toEqual({ reward: 0 });
  expect(read(missing, missing)).toEqual({ reward: 0 });
  expect(read(missing, { kind: 'denied', reason: 'permission denied' })).toEqual({ reward: 0 });
});

it('the score is the reward of the key, else the mean, and the others are metrics', () => {
  const verdict = (rewards: Record<string, number>, key = 'reward') => verdictOf({ rewards, reason: '' }, key);
  expect(verdict({ reward: 1, time: 3 })).toMatchObject({ reward: 1, passed: true, metrics: { time: 3 } });
  expect(verdict({ a: 1, b: 0 })).toMatchObject({ reward: 0.5, passed: false, metrics: { a: 1, b: 0 } });
  expect(verdict({ a: 1, b: 0 }, 'a')).toMatchObject({ reward: 1, passed: true, metrics: { b: 0 } });
  expect(verdict({ a: 1e308, b: 1e308, c: 1e308 })).toMatchObject({ code: 'graded', passed: true });
  const many = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`k${i}`, 1]));
  expect(Object.keys((verdict(many) as { metrics: object }).metrics)).toHaveLength(64);
  expect(verdict(JSON.parse('{"__proto__": 0, "reward": 1}') as Record<string, number>)).toMatchObject({ reward: 1 });
});

const summary = (...lines: string[]) => ['x', '===== short test summary info =====', ...lines].join('\n');

it('the pytest parser reads the first summary; skipped and expected failures pass, unexpected passes do not', () => {
  const score = (output: string) => rewardsOfPytest(output).rewards['reward'];
  expect(score(summary('PASSED a.py::one', 'PASSED a.py::two', '==== 2 passed in 1s ===='))).toBe(1);
  expect(score(summary('PASSED a.py::one', 'FAILED a.py::two - AssertionError: no - really'))).toBe(0);
  expect(score(summary('PASSED a.py::one', 'ERROR a.py'))).toBe(0);
  expect(score(summary('XPASS a.py::one'))).toBe(0);
  expect(score(summary('SKIPPED [1] a.py:3: no', 'XFAIL a.py::b'))).toBe(1);
  expect(score(summary('2 passed'))).toBe(0);
  expect(score('PASSED a.py::one')).toBe(0);
  expect(score(`${summary('FAILED a.py::one')}\n${summary('PASSED other')}`)).toBe(0);
  expect(score('=== Short Test Summary Info ===\nPASSED a::b')).toBe(1);
  expect(score(`${'='.repeat(200_000)} short test summary inf`)).toBe(0);
});

it('the swebench parser reads what is between its markers', () => {
  const said = (text: string) =>
    rewardsOfSweBench(`SWEBench results starts here\n${text}\nSWEBench results ends here`).rewards;
  expect(said('PASSED')).toEqual({ reward: 1 });
  expect(said('FAILED')).toEqual({ reward: 0 });
  expect(said('PASSED\nPASSED')).toEqual({ reward: 0 });
  expect(rewardsOfSweBench('PASSED').rewards).toEqual({ reward: 0 });
});

it('steps: a key that is missing is too low; the mean is over verified steps; the last one may decide', () => {
  expect(belowMin({ reward: 1 }, 1)).toBeUndefined();
  expect(belowMin({ reward: 0.9 }, 1)).toMatch(/below min_reward 1/u);
  expect(belowMin({ reward: 1 }, { safety: 0 })).toMatch(/safety -Infinity/u);
  expect(belowMin({}, undefined)).toBeUndefined();
  expect(rewardsOfSteps([{ reward: 1, a: 1 }, { reward: 0 }], 'mean')).toEqual({ reward: 0.5, a: 0.5 });
  expect(rewardsOfSteps([{ reward: 1 }, null], 'mean')).toEqual({ reward: 1 });
  const huge = { reward: 0, size: Number.MAX_VALUE };
  expect(rewardsOfSteps([huge, huge], 'mean')).toEqual(huge);
  expect(rewardsOfSteps([{ reward: 1 }, { reward: 0.25 }], 'final')).toEqual({ reward: 0.25 });
  expect(rewardsOfSteps([{ reward: 1 }, null], 'final')).toEqual({ reward: 0 });
  expect(rewardsOfSteps([], 'mean')).toEqual({ reward: 0 });
});
