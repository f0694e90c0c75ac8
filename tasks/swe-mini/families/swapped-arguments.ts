/** Swapped arguments: a call passes two arguments in the wrong order. The issue states which one is first. */

import { apply, type Operator } from '../arithmetic.ts';
import { asNumber, type Draft, type DraftFunction, type DraftInput, returning } from '../draft.ts';

function makeHelper({ random, names }: DraftInput): DraftFunction {
  const [a, b] = [names.next(), names.next()];
  const operator: Operator = random.pick(['-', '%']);
  return {
    name: names.next(),
    parameters: [a, b],
    body: returning(`${a} ${operator} ${b}`),
    reference: (x, y) => apply(operator, asNumber(x), asNumber(y)),
    sample: (r) => [r.integer(20, 40), r.integer(3, 9)],
  };
}

export function swappedArguments(input: DraftInput): Draft {
  const { random, names } = input;
  const helper = makeHelper(input);
  const name = names.next();
  const parameters = [names.next(), names.next()];
  const [first, second] = random.shuffle(parameters);
  const inOrder = first === parameters[0];
  const line = (x: string | undefined, y: string | undefined): string => `${helper.name}(${x}, ${y})`;
  const target: DraftFunction = {
    name,
    parameters,
    body: returning(line(first, second)),
    reference: (x = 0, y = 0) => (inOrder ? helper.reference(x, y) : helper.reference(y, x)),
    sample: (r) => [r.integer(20, 40), r.integer(3, 9)].sort((x, y) => (inOrder ? y - x : x - y)),
  };
  const old = `return ${line(second, first)}`;
  return {
    family: 'swapped-arguments',
    functions: random.chance(0.5) ? [helper, target] : [target, helper],
    target: name,
    broken: returning(line(second, first)),
    fix: { old, new: `return ${line(first, second)}` },
    mistake: { old, new: `return ${line(first, first)}` },
    issue: random.pick([
      `\`${name}\` should call \`${helper.name}\` with \`${first}\` first.`,
      `In \`${name}\`, \`${first}\` must come before \`${second}\`.`,
      `\`${name}\` hands over its arguments in the wrong order.`,
    ]),
  };
}
