/** Missing base case: a recursion never ends. The issue states where it should end, and with which value. */

import { asNumber, type Draft, type DraftInput } from '../draft.ts';

export function missingBaseCase({ random, names }: DraftInput): Draft {
  const name = names.next();
  const a = names.next();
  const end = random.integer(0, 2);
  const value = random.pick([3, 4, 5, 6, 7, 8, 9]);
  const step = random.pick(['own', 'constant', 'double'] as const);
  const constant = random.integer(2, 9);
  const call = `${name}(${a} - 1)`;
  const recursion = { own: `${a} + ${call}`, constant: `${constant} + ${call}`, double: `2 * ${call}` }[step];
  const old = `return ${recursion}`;
  const guarded = (result: string): string => `if ${a} == ${end}:\n        return ${result}\n    ${old}`;
  const reference = (n: number): number => {
    if (n === end) return value;
    const rest = reference(n - 1);
    return { own: n + rest, constant: constant + rest, double: 2 * rest }[step];
  };
  return {
    family: 'missing-base-case',
    functions: [
      {
        name,
        parameters: [a],
        body: `    ${guarded(String(value))}`.split('\n'),
        reference: (x) => reference(asNumber(x)),
        sample: (_, n) => [end + n],
      },
    ],
    target: name,
    broken: [`    ${old}`],
    fix: { old, new: guarded(String(value)) },
    mistake: { old, new: guarded(a) },
    issue: random.pick([
      `\`${name}\` never ends: \`${name}(${end})\` should be ${value}.`,
      `\`${name}\` recurses for ever; at ${end} it must give ${value}.`,
    ]),
  };
}
