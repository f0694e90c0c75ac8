/** Wrong operator: the issue states in words which operation is right. */

import { apply, type Operator } from '../arithmetic.ts';
import { asNumber, type Draft, type DraftInput, returning } from '../draft.ts';

const OPERATORS: readonly Operator[] = ['+', '-', '*', '%'];

/** The wrong operators of a careless fix, by the right operator. */
const CARELESS: Readonly<Record<Operator, readonly Operator[]>> = {
  '+': ['*', '-'],
  '-': ['+', '*'],
  '*': ['+', '-'],
  '%': ['*', '-'],
};

function wording(operator: Operator, name: string, a: string, b: string): readonly string[] {
  const said: Readonly<Record<Operator, readonly string[]>> = {
    '+': [`\`${name}\` should add ${b} to ${a}.`, `\`${name}\` must return the sum of ${a} and ${b}.`],
    '-': [`\`${name}\` should subtract ${b} from ${a}.`, `\`${name}\` must return ${a} minus ${b}.`],
    '*': [`\`${name}\` should multiply ${a} by ${b}.`, `\`${name}\` must return the product of ${a} and ${b}.`],
    '%': [`\`${name}\` should take ${a} modulo ${b}.`, `\`${name}\` must return the remainder of ${a} by ${b}.`],
  };
  return said[operator];
}

export function wrongOperator({ random, names }: DraftInput): Draft {
  const name = names.next();
  const [a, b] = [names.next(), names.next()];
  const [right, broken] = random.shuffle(OPERATORS);
  if (right === undefined || broken === undefined) throw new RangeError('two operators are needed');
  const careless = CARELESS[right].find((operator) => operator !== broken) ?? broken;
  const constant = random.chance(0.4) ? random.integer(3, 9) : undefined;
  const second = constant === undefined ? b : String(constant);
  const line = (operator: Operator): string => `${a} ${operator} ${second}`;
  const [first, last] = [`\`${a}\``, constant === undefined ? `\`${b}\`` : second];
  return {
    family: 'wrong-operator',
    functions: [
      {
        name,
        parameters: constant === undefined ? [a, b] : [a],
        body: returning(line(right)),
        reference: (x, y) => apply(right, asNumber(x), constant ?? asNumber(y)),
        sample: (r) => (constant === undefined ? [r.integer(10, 40), r.integer(3, 9)] : [r.integer(10, 40)]),
      },
    ],
    target: name,
    broken: returning(line(broken)),
    fix: { old: `return ${line(broken)}`, new: `return ${line(right)}` },
    mistake: { old: `return ${line(broken)}`, new: `return ${line(careless)}` },
    issue: random.pick(wording(right, name, first, last)),
  };
}
