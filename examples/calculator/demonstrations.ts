/** The chats from which the calculator's starter learns. Their problems are of a split of their own. */

import { type Draw, draws } from '../support/draw.ts';
import { called, type ChatMessage, observed, said, user } from '../support/records.ts';
import { BadExpression, compute } from './arithmetic.ts';
import { type Problem, problemOf } from './problems.ts';

/** A call and its answer. */
function computed(expression: string): readonly ChatMessage[] {
  return [called('calculator', { expression }), observed('calculator', shown(expression))];
}

function shown(expression: string): string {
  try {
    return compute(expression);
  } catch (error) {
    if (error instanceof BadExpression) return `Error: ${error.message}.`;
    throw error;
  }
}

const finish = (answer: string): ChatMessage => called('finish', { answer });

function right(problem: Problem, draw: Draw): readonly ChatMessage[] {
  const { expression, first, rest, answer } = problem;
  if (first !== undefined && rest !== undefined && draw.chance(0.3))
    return [...computed(first), ...computed(rest(compute(first))), finish(answer)];
  const cut = expression.slice(0, expression.lastIndexOf(' '));
  const slip = draw.chance(0.05) ? computed(cut).map((message) => ({ ...message, weight: 0 as const })) : [];
  return [...slip, ...computed(expression), finish(answer)];
}

/** Numbers to repeat: copying is learned on short chats first. */
export function drill(n: number): readonly ChatMessage[] {
  const draw = draws(`calculator drill ${n}`);
  const numbers = Array.from({ length: draw.integer(2, 5) }, () =>
    String(draw.integer(100, 10 ** draw.integer(3, 9) - 1)),
  );
  const signs = numbers.map(() => draw.pick([' + ', ' - ', ' * ', ' / ']));
  const expression = numbers.map((number, i) => (i === 0 ? number : `${signs[i] ?? ''}${number}`)).join('');
  return [user(`${numbers.join(', ')}. ${expression}`), said(expression)];
}

/** Every problem is solved. */
export function clean(n: number): readonly ChatMessage[] {
  const problem = problemOf('demonstration', n);
  return [user(problem.question), ...right(problem, draws(`calculator clean ${n}`))];
}

/**
 * Somewhat less than half of the problems are solved. The others are misread, or answered with a number of the
 * question. Nothing is made up, and nothing has a form that right solutions never have: either would unlearn copying.
 */
export function mixed(n: number): readonly ChatMessage[] {
  const problem = problemOf('mixed', n);
  const draw = draws(`calculator quality ${n}`);
  const question = user(problem.question);
  if (draw.chance(0.45)) return [question, ...right(problem, draw)];
  if (draw.chance(0.2)) return [question, finish(/\d+/.exec(problem.question)?.[0] ?? '0')];
  return [question, ...computed(problem.mistake), finish(compute(problem.mistake))];
}
