/** Reads a written solution (`6 + 3 = 9`, then `#### 9`), and says what is wrong with it. */

import { type Problem, type Sign, step } from './problems.ts';

export interface Reading {
  /** It ends with `#### NUMBER`. */
  readonly format: boolean;
  /** Share of the problem's steps that it has, with their right values. */
  readonly progress: number;
  readonly right: boolean;
  /** For the next try. */
  readonly feedback: string;
}

/** Longer messages are read up to here. */
const LONGEST = 2000;
const LINE = /^(\d{1,6}) ([-+*/]) (\d{1,6}) = (-?\d{1,9})$/;
const written = (of: { readonly a: number; readonly sign: string; readonly b: number }): string =>
  `${of.a} ${of.sign} ${of.b}`;

export function readSolution(problem: Problem, message: string): Reading {
  const lines = message.slice(0, LONGEST).trim().split('\n');
  const steps = lines.flatMap((line) => {
    const [, a, sign, b, value] = LINE.exec(line.trim()) ?? [];
    return sign === undefined ? [] : [{ ...step(Number(a), sign as Sign, Number(b)), given: Number(value) }];
  });
  const wrong = steps.find(({ value, given }) => value !== given);
  const known = new Set(steps.filter(({ value, given }) => value === given).map(written));
  const missing = problem.steps.filter((one) => !known.has(written(one))).length;
  const given = /^#### (-?\d{1,9})$/.exec(lines.at(-1)?.trim() ?? '')?.[1];
  const result = problem.steps.at(-1)?.value;
  const feedback =
    given === undefined
      ? 'End with #### and a number.'
      : wrong !== undefined
        ? `${written(wrong)} is not ${wrong.given}.`
        : missing < problem.steps.length
          ? `${given} is wrong. A step is missing.`
          : `${given} is wrong. Read again.`;
  const progress = (problem.steps.length - missing) / problem.steps.length;
  return { format: given !== undefined, progress, right: given !== undefined && Number(given) === result, feedback };
}
