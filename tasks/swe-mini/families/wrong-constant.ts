/** Wrong constant: the issue states the right number. */

import { apply, type Operator } from '../arithmetic.ts';
import { asNumber, type Draft, type DraftInput, returning } from '../draft.ts';

const OPERATORS: readonly Operator[] = ['+', '-', '*'];

function wording(operator: Operator, name: string, right: number, broken: number): readonly string[] {
  const noun = operator === '*' ? 'factor' : 'offset';
  return [
    `The ${noun} in \`${name}\` should be ${right}.`,
    `\`${name}\` uses ${broken} where ${right} is meant.`,
    `\`${name}\` has the wrong ${noun}: it must be ${right}.`,
  ];
}

export function wrongConstant({ random, names }: DraftInput): Draft {
  const name = names.next();
  const a = names.next();
  const operator = random.pick(OPERATORS);
  const right = random.integer(2, 99);
  const broken = ((right - 2 + random.integer(1, 97)) % 98) + 2;
  const line = (o: Operator, constant: number): string => `${a} ${o} ${constant}`;
  const old = `return ${line(operator, broken)}`;
  return {
    family: 'wrong-constant',
    functions: [
      {
        name,
        parameters: [a],
        body: returning(line(operator, right)),
        reference: (x) => apply(operator, asNumber(x), right),
        sample: (r) => [r.integer(2, 40)],
      },
    ],
    target: name,
    broken: returning(line(operator, broken)),
    fix: { old, new: `return ${line(operator, right)}` },
    mistake: { old, new: `return ${line(operator === '*' ? '+' : '*', right)}` },
    issue: random.pick(wording(operator, name, right, broken)),
  };
}
