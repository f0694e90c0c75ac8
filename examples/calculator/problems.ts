/** Questions with numbers too large for the head. A problem is a function of its split and number alone. */

import { type Draw, draws } from '../support/draw.ts';
import { compute } from './arithmetic.ts';

export interface Problem {
  readonly family: string;
  readonly question: string;
  /** What to compute. */
  readonly expression: string;
  /** What someone computes who does not read well. */
  readonly mistake: string;
  /** The first of two steps, if there are two. `rest` is the second one, of the result of the first. */
  readonly first?: string;
  readonly rest?: (result: string) => string;
  readonly answer: string;
}

type Draft = Omit<Problem, 'family' | 'answer'>;

const large = (draw: Draw): number => draw.integer(1000, 999_999);
const small = (draw: Draw): number => draw.integer(101, 999);

/** Two numbers, the larger one first. */
function ordered(draw: Draw): readonly [number, number] {
  const [a, b] = [large(draw), large(draw)];
  return a > b ? [a, b] : [b, a];
}

type Family = readonly [string, (draw: Draw) => Draft];

const FAMILIES: readonly [Family, ...Family[]] = [
  [
    'sum',
    (draw) => {
      const [a, b, c] = [large(draw), large(draw), large(draw)];
      return { question: `Add ${a}, ${b} and ${c}.`, expression: `${a} + ${b} + ${c}`, mistake: `${a} + ${b}` };
    },
  ],
  [
    'difference',
    (draw) => {
      const [a, b] = ordered(draw);
      return { question: `Subtract ${b} from ${a}.`, expression: `${a} - ${b}`, mistake: `${a} + ${b}` };
    },
  ],
  [
    'product',
    (draw) => {
      const [a, b] = [large(draw), small(draw)];
      return { question: `Multiply ${a} by ${b}.`, expression: `${a} * ${b}`, mistake: `${a} + ${b}` };
    },
  ],
  [
    'quotient',
    (draw) => {
      const [result, b] = [large(draw), small(draw)];
      const a = result * b;
      return { question: `Divide ${a} by ${b}.`, expression: `${a} / ${b}`, mistake: `${a} * ${b}` };
    },
  ],
  [
    'sum of a product',
    (draw) => {
      const [a, b, c] = [large(draw), large(draw), small(draw)];
      return {
        question: `Add ${a} and ${b}, then multiply by ${c}.`,
        expression: `(${a} + ${b}) * ${c}`,
        mistake: `${a} + ${b} * ${c}`,
        first: `${a} + ${b}`,
        rest: (sum) => `${sum} * ${c}`,
      };
    },
  ],
  [
    'difference of a product',
    (draw) => {
      const [[a, b], c] = [ordered(draw), small(draw)];
      return {
        question: `Subtract ${b} from ${a}, then multiply by ${c}.`,
        expression: `(${a} - ${b}) * ${c}`,
        mistake: `${a} - ${b}`,
        first: `${a} - ${b}`,
        rest: (difference) => `${difference} * ${c}`,
      };
    },
  ],
  [
    'rest',
    (draw) => {
      const [a, b, c] = [small(draw), small(draw), draw.integer(2_000_000, 9_999_999)];
      return {
        question: `${a} boxes hold ${b} nails each. How many of ${c} nails are left?`,
        expression: `${c} - ${a} * ${b}`,
        mistake: `${a} * ${b}`,
        first: `${a} * ${b}`,
        rest: (held) => `${c} - ${held}`,
      };
    },
  ],
  [
    'price',
    (draw) => {
      const [a, b, c] = [small(draw), small(draw), large(draw)];
      return {
        question: `What do ${a} doors at ${b} each and a gate at ${c} cost?`,
        expression: `${a} * ${b} + ${c}`,
        mistake: `${a} + ${b} + ${c}`,
        first: `${a} * ${b}`,
        rest: (doors) => `${doors} + ${c}`,
      };
    },
  ],
];

/** Problem `n` of a split. */
export function problemOf(split: string, n: number): Problem {
  const draw = draws(`calculator ${split} ${n}`);
  const [family, drafted] = FAMILIES[n % FAMILIES.length] ?? FAMILIES[0];
  const draft = drafted(draw);
  return { family, ...draft, answer: compute(draft.expression) };
}
