/** Word problems of one or two steps, with small numbers. A problem is a function of its split and number alone. */

import { type Draw, draws } from '../support/draw.ts';

export type Sign = '+' | '-' | '*' | '/';

/** `a sign b`, and its value. */
export interface Step {
  readonly a: number;
  readonly sign: Sign;
  readonly b: number;
  readonly value: number;
}

export interface Problem {
  readonly family: string;
  readonly question: string;
  readonly steps: readonly Step[];
  /** The steps of someone who takes the wrong sign, or only the first step. */
  readonly mistake: readonly Step[];
}

type Draft = Omit<Problem, 'family'>;

export function step(a: number, sign: Sign, b: number): Step {
  return { a, sign, b, value: sign === '+' ? a + b : sign === '-' ? a - b : sign === '*' ? a * b : a / b };
}

const NAMES = ['Ana', 'Ben', 'Eva', 'Fadi', 'Kim', 'Leo', 'Mia', 'Tom'] as const;
const THINGS = ['apples', 'books', 'coins', 'eggs', 'lemons', 'pens', 'shells', 'stamps'] as const;

interface Words {
  readonly one: string;
  readonly other: string;
  readonly things: string;
}

type Family = readonly [string, (words: Words, draw: Draw) => Draft];

const gain: Family = [
  'gain',
  ({ one, other, things }, draw) => {
    const [a, b] = [draw.integer(5, 20), draw.integer(2, 5)];
    const question = `${one} has ${a} ${things}. ${other} gives ${one} ${b} more. How many ${things} does ${one} have?`;
    return { question, steps: [step(a, '+', b)], mistake: [step(a, '-', b)] };
  },
];
const loss: Family = [
  'loss',
  ({ one, other, things }, draw) => {
    const [a, b] = [draw.integer(6, 20), draw.integer(2, 5)];
    const question = `${one} has ${a} ${things} and gives ${other} ${b}. How many ${things} are left?`;
    return { question, steps: [step(a, '-', b)], mistake: [step(a, '+', b)] };
  },
];
const boxes: Family = [
  'boxes',
  ({ one, things }, draw) => {
    const [a, b] = [draw.integer(3, 9), draw.integer(2, 9)];
    const question = `${one} fills ${a} boxes with ${b} ${things} each. How many ${things} are in the boxes?`;
    return { question, steps: [step(a, '*', b)], mistake: [step(a, '+', b)] };
  },
];
const share: Family = [
  'share',
  ({ one, things }, draw) => {
    const [each, b] = [draw.integer(3, 9), draw.integer(2, 5)];
    const question = `${one} shares ${each * b} ${things} among ${b} friends. How many ${things} does each one get?`;
    return { question, steps: [step(each * b, '/', b)], mistake: [step(each * b, '-', b)] };
  },
];
const boxesAndMore: Family = [
  'boxes and more',
  ({ one, things }, draw) => {
    const [a, b, c] = [draw.integer(3, 6), draw.integer(2, 6), draw.integer(2, 5)];
    const question = `${one} has ${a} boxes of ${b} ${things}, and ${c} more. How many ${things} does ${one} have?`;
    return { question, steps: [step(a, '*', b), step(a * b, '+', c)], mistake: [step(a, '+', b), step(a + b, '+', c)] };
  },
];
const gainAndLoss: Family = [
  'gain and loss',
  ({ one, other, things }, draw) => {
    const [a, b, c] = [draw.integer(5, 15), draw.integer(2, 5), draw.integer(2, 5)];
    const question = `${one} has ${a} ${things}, finds ${b} and gives ${other} ${c}. How many ${things} are left?`;
    return { question, steps: [step(a, '+', b), step(a + b, '-', c)], mistake: [step(a, '+', b)] };
  },
];
const together: Family = [
  'together',
  ({ one, other, things }, draw) => {
    const [a, b] = [draw.integer(3, 12), draw.integer(2, 5)];
    const question =
      `${one} has ${a} ${things}. ${other} has ${b} more than ${one}. ` + `How many ${things} do they have together?`;
    return { question, steps: [step(a, '+', b), step(a, '+', a + b)], mistake: [step(a, '+', b)] };
  },
];
const times: Family = [
  'times',
  ({ one, other, things }, draw) => {
    const [a, b, c] = [draw.integer(3, 8), draw.integer(2, 5), draw.integer(2, 5)];
    const question =
      `${one} has ${a} ${things}. ${other} has ${b} times as many, and loses ${c}. ` +
      `How many ${things} are left to ${other}?`;
    return { question, steps: [step(a, '*', b), step(a * b, '-', c)], mistake: [step(a, '*', b)] };
  },
];

const FAMILIES = [gain, loss, boxes, share, boxesAndMore, gainAndLoss, together, times] as const;

/** Problem `n` of a split. */
export function problemOf(split: string, n: number): Problem {
  const draw = draws(`gsm-mini ${split} ${n}`);
  const one = draw.pick(NAMES);
  const other = NAMES[(NAMES.indexOf(one) + draw.integer(1, NAMES.length - 1)) % NAMES.length] ?? one;
  const [family, draft] = FAMILIES[n % FAMILIES.length] ?? gain;
  return { family, ...draft({ one, other, things: draw.pick(THINGS) }, draw) };
}
