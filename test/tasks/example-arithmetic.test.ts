/**
 * The calculator and the reader of solutions behind the examples that learn. Why: a wrong digit or a solution read wrongly
 * teaches the policy what is not so. The policy writes what both read, so both answer any text.
 */
import { expect, it } from 'vitest';
import { BadExpression, compute } from '../../examples/calculator/arithmetic.ts';
import { problemOf as calculation } from '../../examples/calculator/problems.ts';
import { readSolution } from '../../examples/gsm-mini/feedback.ts';
import { problemOf as wordProblem } from '../../examples/gsm-mini/problems.ts';

it.each([
  ['2 + 3 * 4', '14'],
  ['(2 + 3) * 4', '20'],
  ['10 - 4 - 3', '3'],
  ['100 / 5 / 4', '5'],
  ['-3 * -(2 + 1)', '9'],
  ['4 / -8', '-0.5'],
  ['0.1 + 0.2', '0.3'],
  ['1 / 3', '0.333333333333'],
  ['-1 / 10000000000000', '0'],
  ['999999999999999999 * 999999999999999999', '999999999999999998000000000000000001'],
  ['12.50 * 2', '25'],
  ['0 - 0', '0'],
])('%s is %s', (expression, value) => expect(compute(expression)).toBe(value));

it.each([
  ['', 'the end is not expected'],
  ['2 +', 'the end is not expected'],
  ['2 3', '3 is not expected'],
  ['(2', ') is missing'],
  ['2)', ') is not expected'],
  ['1 / (3 - 3)', 'division by zero'],
  ['process.exit()', 'p is not expected'],
  ['2 ** 9', '* is not expected'],
  ['9'.repeat(201), 'at most 200'],
  ['('.repeat(200), 'the end is not expected'],
])('%j is refused: %s', (expression, reason) => {
  expect(() => compute(expression)).toThrow(BadExpression);
  expect(() => compute(expression)).toThrow(reason);
});

it('no family’s mistake gives the right answer, and both ways of two steps do', () => {
  for (let n = 0; n < 400; n += 1) {
    const { family, expression, mistake, answer, first, rest } = calculation('train', n);
    expect(compute(expression), family).toBe(answer);
    expect(compute(mistake), family).not.toBe(answer);
    expect(answer, family).toMatch(/^\d+$/);
    if (first !== undefined) expect(compute(rest?.(compute(first)) ?? ''), family).toBe(answer);
  }
});

it('a solution is read line by line: form, steps, result', () => {
  const problem = wordProblem('train', 4);
  const [one, two] = problem.steps;
  const line = (step: typeof one) => `${step?.a} ${step?.sign} ${step?.b} = ${step?.value}`;
  const whole = `${line(one)}\n${line(two)}\n#### ${two?.value}`;
  expect(problem.steps).toHaveLength(2);
  expect(readSolution(problem, whole)).toMatchObject({ format: true, progress: 1, right: true });
  expect(readSolution(problem, `${line(one)}\n#### ${one?.value}`)).toEqual({
    format: true,
    progress: 0.5,
    right: false,
    feedback: `${one?.value} is wrong. A step is missing.`,
  });
  expect(readSolution(problem, line(one))).toMatchObject({
    format: false,
    right: false,
    feedback: 'End with #### and a number.',
  });
  expect(readSolution(problem, '6 + 3 = 8\n#### 8').feedback).toBe('6 + 3 is not 8.');
  expect(readSolution(problem, '6 / 0 = 8\n#### 8').feedback).toBe('6 / 0 is not 8.');
  expect(readSolution(problem, `#### ${two?.value}\nor #### 1`)).toMatchObject({ format: false, right: false });
  expect(readSolution(problem, '').progress).toBe(0);
});

it('a mistake in a word problem never has the right result', () => {
  for (let n = 0; n < 4000; n += 1) {
    const { family, steps, mistake } = wordProblem('train', n);
    expect(
      steps.every(({ value }) => Number.isSafeInteger(value) && value >= 0),
      family,
    ).toBe(true);
    if (mistake.at(-1)?.value === steps.at(-1)?.value) expect.fail(`${family}: ${JSON.stringify({ steps, mistake })}`);
  }
});
