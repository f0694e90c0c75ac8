/** The chats from which gsm-mini's starter learns. Their problems are of splits of their own. */

import { draws } from '../support/draw.ts';
import { type ChatMessage, said, user } from '../support/records.ts';
import { readSolution } from './feedback.ts';
import { type Problem, problemOf, type Sign, step, type Step } from './problems.ts';

function solution(steps: readonly Step[]): string {
  const lines = steps.map(({ a, sign, b, value }) => `${a} ${sign} ${b} = ${value}`);
  return `${lines.join('\n')}\n#### ${steps.at(-1)?.value ?? 0}`;
}

/** A chat in which the tries are given in order, with the hints between them. `slips` of them are not trained. */
function chat(problem: Problem, tries: readonly string[], slips = 0): readonly ChatMessage[] {
  return tries.reduce<readonly ChatMessage[]>(
    (before, text, i) => [
      ...before,
      i < slips ? { ...said(text), weight: 0 } : said(text),
      ...(i + 1 < tries.length ? [user(readSolution(problem, text).feedback)] : []),
    ],
    [user(problem.question)],
  );
}

/** Sums alone: what the numbers are worth is learned on short chats first. */
export function drill(n: number): readonly ChatMessage[] {
  const draw = draws(`gsm-mini drill ${n}`);
  const sums = Array.from({ length: 6 }, () => {
    const sign: Sign = draw.pick(['+', '-', '*', '/']);
    const [a, b] = [draw.integer(2, sign === '*' ? 9 : 36), draw.integer(2, sign === '*' ? 9 : 29)];
    if (sign === '/') return step((2 + (a % 8)) * (2 + (b % 8)), '/', 2 + (b % 8));
    return step(Math.max(a, b), sign, Math.min(a, b));
  });
  const lines = sums.map(({ a, sign, b, value }) => `${a} ${sign} ${b} = ${value}`);
  return [user('Sums.'), said(lines.join('\n'))];
}

/** Every problem is solved, some of them after a first try that is wrong. */
export function clean(n: number): readonly ChatMessage[] {
  const problem = problemOf('demonstration', n);
  const draw = draws(`gsm-mini clean ${n}`);
  const right = solution(problem.steps);
  if (draw.chance(0.85)) return chat(problem, [right]);
  return chat(
    problem,
    [draw.chance(0.8) ? solution(problem.mistake) : right.slice(0, right.indexOf('####')).trim(), right],
    1,
  );
}

/** Less than half of the problems are solved. Hints are mostly ignored. */
export function mixed(n: number): readonly ChatMessage[] {
  const problem = problemOf('mixed', n);
  const draw = draws(`gsm-mini quality ${n}`);
  const tries: string[] = [];
  for (let isRight = false; !isRight && tries.length < 3;) {
    isRight = draw.chance(tries.length === 0 ? 0.3 : 0.12);
    tries.push(solution(isRight ? problem.steps : problem.mistake));
  }
  return chat(problem, tries);
}
