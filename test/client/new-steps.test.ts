/** Hunts steps that are returned twice, left out silently, or wrongly reported as missed. */

import { expect, it } from 'vitest';
import { NewSteps, StepsMissed } from '../../client/new-steps.ts';
import type { StepRecord } from '../../protocol/step-record.ts';

/** The status of a run of 100 steps after `step`, which still has the steps from `first` on. */
const status = (step: number, first = Math.max(1, step - 19)) => ({
  step,
  steps: 100,
  recent: Array.from({ length: step - first + 1 }, (_, i) => ({ step: first + i }) as StepRecord),
});
const notBegun = { step: 0, steps: 0, recent: [] };

function looks(after: number, ...said: Array<ReturnType<typeof status>>): number[][] {
  const news = new NewSteps('r', after);
  return said.map((one) => news.in(one).map(({ step }) => step));
}

it('tells each step once', () => {
  expect(looks(0, notBegun, status(0), status(2), status(2), status(3))).toEqual([[], [], [1, 2], [], [3]]);
  expect(looks(2, status(1), status(3), status(4))).toEqual([[], [3], [4]]);
  expect(looks(0, status(0), status(20), status(40))[2]).toHaveLength(20);
});

it('misses nothing of what ended before it was asked', () => {
  expect(looks(0, status(50), status(51))).toEqual([status(50).recent.map(({ step }) => step), [51]]);
  expect(looks(5, status(50))[0]?.[0]).toBe(31);
  // A run that starts again from its records reports only its next steps.
  expect(looks(0, notBegun, status(50, 51), status(51, 51))).toEqual([[], [], [51]]);
});

it.each([
  ['before those that are told', [status(2), status(25)], 3, 5],
  ['in a run that started again meanwhile', [status(2), status(4, 5)], 3, 4],
  ['where none had ended at the first look', [status(0), status(21)], 1, 1],
])('says which it missed %s', (_, said, first, last) => {
  const error: unknown = (() => {
    try {
      return looks(0, ...said);
    } catch (thrown) {
      return thrown;
    }
  })();
  expect(error).toBeInstanceOf(StepsMissed);
  expect(error).toMatchObject({
    first,
    last,
    message: expect.stringMatching(`${first}.*of run r: .*metrics\\.jsonl.*steps\\(${last}\\)`) as string,
  });
});
