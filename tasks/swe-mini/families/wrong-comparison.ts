/** Wrong comparison: the issue states in words when the result is true. */

import { compare, type Comparison } from '../arithmetic.ts';
import { asNumber, type Draft, type DraftInput, returning } from '../draft.ts';

const COMPARISONS: readonly Comparison[] = ['<', '<=', '>', '>='];

const WORDS: Readonly<Record<Comparison, readonly string[]>> = {
  '<': ['below', 'less than'],
  '<=': ['at most', 'not above'],
  '>': ['above', 'more than'],
  '>=': ['at least', 'not below'],
};

/** The bug: wrong only at the boundary. */
const BROKEN: Readonly<Record<Comparison, Comparison>> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' };

/** The comparison of a careless fix: the other direction. */
const CARELESS: Readonly<Record<Comparison, Comparison>> = { '<': '>', '<=': '>=', '>': '<', '>=': '<=' };

export function wrongComparison({ random, names }: DraftInput): Draft {
  const name = names.next();
  const [a, b] = [names.next(), names.next()];
  const right = random.pick(COMPARISONS);
  const [broken, careless] = [BROKEN[right], CARELESS[right]];
  const constant = random.chance(0.4) ? random.integer(3, 9) : undefined;
  const second = constant === undefined ? b : String(constant);
  const line = (comparison: Comparison): string => `${a} ${comparison} ${second}`;
  const words = random.pick(WORDS[right]);
  const said = constant === undefined ? `\`${b}\`` : second;
  const old = `return ${line(broken)}`;
  return {
    family: 'wrong-comparison',
    functions: [
      {
        name,
        parameters: constant === undefined ? [a, b] : [a],
        body: returning(line(right)),
        reference: (x, y) => compare(right, asNumber(x), constant ?? asNumber(y)),
        sample: (r, n) => {
          const base = constant ?? r.integer(4, 9);
          const other = base + (n % 3) - 1;
          return constant === undefined ? [other, base] : [other];
        },
      },
    ],
    target: name,
    broken: returning(line(broken)),
    fix: { old, new: `return ${line(right)}` },
    mistake: { old, new: `return ${line(careless)}` },
    issue: random.pick([
      `\`${name}\` should be true when \`${a}\` is ${words} ${said}.`,
      `\`${name}\` must tell whether \`${a}\` is ${words} ${said}.`,
    ]),
  };
}
