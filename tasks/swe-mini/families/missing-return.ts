/** Missing return: the result is computed but not returned. */

import { apply, type Operator } from '../arithmetic.ts';
import { asNumber, type Draft, type DraftInput } from '../draft.ts';

export function missingReturn({ random, names }: DraftInput): Draft {
  const name = names.next();
  const [a, b] = [names.next(), names.next()];
  const operator: Operator = random.pick(['+', '-', '*']);
  const constant = random.chance(0.5) ? random.integer(2, 9) : undefined;
  const expression = `${a} ${operator} ${constant ?? b}`;
  return {
    family: 'missing-return',
    functions: [
      {
        name,
        parameters: constant === undefined ? [a, b] : [a],
        body: [`    return ${expression}`],
        reference: (x, y) => apply(operator, asNumber(x), constant ?? asNumber(y)),
        sample: (r) => (constant === undefined ? [r.integer(10, 30), r.integer(2, 9)] : [r.integer(10, 30)]),
      },
    ],
    target: name,
    broken: [`    ${expression}`],
    fix: { old: expression, new: `return ${expression}` },
    mistake: { old: expression, new: `print(${expression})` },
    issue: random.pick([
      `\`${name}\` gives None instead of its result.`,
      `The result of \`${name}\` is lost.`,
      `\`${name}\` never returns what it computes.`,
    ]),
  };
}
