/** Hunts a right answer that scores 0, and a text without one, or with a wrong one, that scores more. */

import { describe, expect, test } from 'vitest';
import { aime } from '../../../tasks/math/aime.ts';
import { lastBoxed } from '../../../tasks/math/boxed.ts';
import { answerIn } from '../../../tasks/math/grade-math.ts';
import { gsm8k } from '../../../tasks/math/gsm8k.ts';
import { gsm8kMultiTurn } from '../../../tasks/math/gsm8k-multi-turn.ts';
import { math } from '../../../tasks/math/math.ts';
import type { Environment } from '../../../tasks/environment.ts';
import { answered, datasetWith, openedWith, workOf } from '../support/answered.ts';

const raw = String.raw;

describe('gsm8k', () => {
  const record = (answer: string) => ({ question: 'How many?', answer: `Some steps. <<1+1=2>>\n#### ${answer}` });

  test.each([
    ['1234', '#### 1234', true],
    ['1234', '#### 1,234', true],
    ['1234', '#### $1,234.', true],
    ['1234', raw`#### \$1,234.00`, true],
    ['1234', '####1234', true],
    ['1234', '#### 1\u00a0234', true],
    ['1234', '#### １２３４', true],
    ['1234', '#### ١٢٣٤', true],
    ['1234', '#### ２２３４', false],
    ['1234', '#### **1234** dollars', true],
    ['1234', '#### 1234.5', false],
    ['1234', '#### 1.234', false],
    ['1234', '#### 234', false],
    ['1234', 'It is 1234.', false],
    ['1234', '#### ', false],
    ['1234', '#### 12345', false],
    ['42', '#### 42.0', true],
    ['42', '#### 84/2', true],
    ['42', '#### 42/0', false],
    ['42', '#### 41\nNo.\n#### 42', true],
    ['42', '#### 42\nNo.\n#### 41', false],
    ['42', '####\n42', true],
    ['42', '#### -42', false],
    ['-10', '#### -10', true],
    ['-10', '#### −10', true],
    ['-10', '#### -$10', true],
    ['1,450,000', '#### 1450000', true],
    ['42', `#### ${'4'.repeat(5000)}`, false],
  ])('gold %s: %j is right: %s', async (gold, answer, passed) => {
    const task = await openedWith(gsm8k, [record(gold)]);
    expect(await answered(task, answer)).toMatchObject({ code: 'graded', passed, reward: Number(passed) });
  });

  test.each([
    ['It is 1,234.', true],
    ['First 1234, then 5.', false],
    ['5 #### 1234 6', true],
    ['none', false],
  ])('flexible: %j is right: %s', async (answer, passed) => {
    const task = await openedWith(gsm8k, [record('1234')], { method: 'flexible' });
    expect(await answered(task, answer)).toMatchObject({ passed });
  });

  test('skyrl differs by name alone', async () => {
    const verdictOf = async (verdict: string) =>
      answered(await openedWith(gsm8k, [record('1,234')], { verdict }), '#### 1,234.');
    expect(await verdictOf('number')).toMatchObject({ reward: 1 });
    expect(await verdictOf('skyrl')).toMatchObject({ reward: 0, parts: { format: 1, outcome: 0 } });
  });

  test('a record without a number is refused by file, number and field', async () => {
    await expect(datasetWith(gsm8k, [record('1'), { question: 'How many?', answer: 'none' }])).rejects.toThrow(
      /test\.jsonl, record 2, field answer: it must have a number/,
    );
    await expect(datasetWith(gsm8k, [{ problem: 'How many?' }])).rejects.toThrow(
      /record 1, field answer: it is missing; or map it: fields: \{ answer: NAME \}/,
    );
  });

  test.each(['1'.repeat(200_000), '#### '.repeat(50_000), `####${' '.repeat(99_000)}1`, '1,'.repeat(60_000)])(
    'a long text is graded: %#',
    async (text) => {
      const task = await openedWith(gsm8k, [record('1234')], { method: 'flexible' });
      expect(await answered(task, text)).toMatchObject({ code: 'graded', reward: 0 });
    },
  );
});

describe('gsm8k_multi_turn', () => {
  const play = async (answers: readonly string[], options: Readonly<Record<string, unknown>> = {}) => {
    const task = await openedWith(gsm8kMultiTurn, [{ question: 'How many?', answer: '#### 42' }], options);
    const ctx = {} as Parameters<typeof task.grade>[0];
    let state = (await task.start?.(ctx))?.state;
    const rewards: number[] = [];
    const replies: string[] = [];
    let done = false;
    for (const answer of answers) {
      const after = await task.step?.(ctx, state, answer);
      state = after?.state;
      rewards.push(after?.reward ?? Number.NaN);
      replies.push(...(after?.messages ?? []).map(({ content }) => content));
      done = after?.done ?? false;
    }
    return { rewards, replies, done, verdict: await task.grade(ctx, workOf('', { state, turnRewards: rewards })) };
  };

  test('feedback until the answer is right, and a reward for each try', async () => {
    const { rewards, replies, done, verdict } = await play(['hm', '#### 41', '#### 42.']);
    expect(rewards).toEqual([0, 0.04, 1]);
    expect(replies).toHaveLength(2);
    expect(done).toBe(true);
    expect(verdict).toMatchObject({ reward: 1.04, passed: true, metrics: { avg_steps: 3 }, parts: { outcome: 1 } });
  });

  test('the last try is announced, and ends it', async () => {
    const { replies, done, verdict } = await play(['#### 1', '#### 2'], { maxTurns: 2 });
    expect(replies).toEqual([expect.stringMatching(/last try/)]);
    expect(done).toBe(true);
    expect(verdict).toMatchObject({ passed: false, reward: 0.2 });
  });

  test('nothing said scores 0', async () => {
    expect((await play([])).verdict).toMatchObject({ reward: 0, passed: false });
  });

  test('a wrong number of tries is refused', async () => {
    const bad = { question: 'How many?', answer: '#### 1', max_turns: 'many' };
    await expect(datasetWith(gsm8kMultiTurn, [bad])).rejects.toThrow(/record 1, field max_turns/);
  });
});

describe('aime', () => {
  test.each([
    ['value', 'So \\boxed{204}', 1],
    ['value', 'Answer: 204', 1],
    ['value', 'Answer: \\boxed{0204}.', 1],
    ['value', 'Answer: 205', 0],
    ['value', '', 0],
    ['skyrl', 'So \\boxed{204}', -1],
    ['skyrl', 'Answer: \\boxed{204}', 1],
    ['skyrl_strict_box', 'So \\boxed{204}', 1],
    ['skyrl_strict_box', 'Answer: 204', -1],
  ])('%s: %j has the reward %s', async (verdict, answer, reward) => {
    const record = { prompt: [{ role: 'user', content: 'Find it.' }], reward_model: { ground_truth: '204' } };
    expect(await answered(await openedWith(aime, [record], { verdict }), answer)).toMatchObject({ reward });
  });
});

describe('math', () => {
  test.each([
    [raw`so \boxed{\frac{1}{\sqrt{2}}} is it`, raw`\frac{1}{\sqrt{2}}`],
    [raw`\boxed{1} and \boxed{2}`, '2'],
    [raw`\boxed 7.`, '7.'],
    [raw`\fbox{a}`, 'a'],
    [raw`\boxed{\{1, 2\}}`, raw`\{1, 2\}`],
    [raw`\boxed{1`, undefined],
    ['none', undefined],
  ])('the last box of %j', (text, content) => {
    expect(lastBoxed(text)).toBe(content);
  });

  test.each([
    ['<think>\\boxed{1}</think>\n\\boxed{2}', '2'],
    ['<think>\\boxed{1}</think>\nIt is clear.\nBye.', undefined],
    ['Long.\nThe final answer is $x = 3$.', 'x = 3'],
    ['Long.\n**Answer:** 3', '3'],
    ['42', '42'],
    ['', undefined],
  ])('the answer of %j', (message, answer) => {
    expect(answerIn(message)).toBe(answer);
  });

  test('verdicts by name, and parts', async () => {
    const record = { problem: 'What is it?', solution: 'It is \\boxed{\\frac{1}{2}}.', subject: 'Algebra' };
    const of = (verdict: string) => openedWith(math, [record], { verdict });
    expect(await answered(await of('exact'), '\\boxed{0.5}')).toMatchObject({ reward: 0 });
    expect(await answered(await of('exact'), '\\boxed{ \\dfrac{1}{2} }')).toMatchObject({ reward: 1 });
    expect(await answered(await of('equivalent'), '\\boxed{0.5}')).toMatchObject({
      reward: 1,
      parts: { format: 1, exact: 0, outcome: 1 },
    });
    expect((await of('exact')).family).toBe('Algebra');
  });
});

test.each([
  ['\\boxed{'.repeat(14_000)],
  ['\\boxed{}'.repeat(12_000)],
  [`answer is${' '.repeat(90_000)}`],
  ['answer: '.repeat(12_000)],
  ['</think>'.repeat(12_000)],
])('a hostile message is graded: %#', async (message) => {
  const environments = [gsm8k, math, aime] as readonly Environment[];
  for (const environment of environments) {
    const task = await openedWith(environment, [{ question: 'How many?', answer: '12' }]);
    expect(await answered(task, message)).toMatchObject({ code: 'graded', reward: 0 });
  }
});

test.each([2 ** 64, 1e300, 1e-7])('the answer %s, which the file writes in another way, is refused', async (answer) => {
  for (const environment of [math, gsm8k] as Environment[])
    await expect(openedWith(environment, [{ question: 'How many?', answer }])).rejects.toThrow(
      /record 1, field answer: .*write it as a text/,
    );
});

test('other numbers are answers', async () => {
  for (const answer of [1, -0.25, 9007199254740991, 0.000001]) {
    const task = await openedWith(math, [{ question: 'How many?', answer }]);
    expect(await answered(task, raw`\boxed{${answer}}`)).toMatchObject({ passed: true });
  }
});
