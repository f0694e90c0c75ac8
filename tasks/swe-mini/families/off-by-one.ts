/** Off by one: a range ends one too early or one too late. The issue states whether the range includes its end. */

import { asNumber, type Draft, type DraftInput, returning } from '../draft.ts';

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}

function wording(inclusive: boolean, name: string, end: string): readonly string[] {
  return inclusive
    ? [`\`${name}\` must include \`${end}\` itself.`, `\`${name}\` stops too early: \`${end}\` belongs to it.`]
    : [`\`${name}\` must stop before \`${end}\`.`, `\`${name}\` goes too far: \`${end}\` is not part of it.`];
}

export function offByOne({ random, names }: DraftInput): Draft {
  const name = names.next();
  const [a, b] = [names.next(), names.next()];
  const inclusive = random.chance(0.5);
  const summed = random.chance(0.5);
  const end = summed ? a : b;
  const line = (bound: string): string => (summed ? `sum(range(${bound}))` : `list(range(${a}, ${bound}))`);
  const [right, broken] = inclusive ? [`${end} + 1`, end] : [end, `${end} + 1`];
  const extra = inclusive ? 1 : 0;
  const old = `return ${line(broken)}`;
  return {
    family: 'off-by-one',
    functions: [
      {
        name,
        parameters: summed ? [a] : [a, b],
        body: returning(line(right)),
        reference: (x, y) =>
          summed
            ? range(0, asNumber(x) + extra).reduce((total, item) => total + item, 0)
            : range(asNumber(x), asNumber(y) + extra),
        sample: (r) => (summed ? [r.integer(3, 12)] : [r.integer(0, 4), r.integer(5, 9)]),
      },
    ],
    target: name,
    broken: returning(line(broken)),
    fix: { old, new: `return ${line(right)}` },
    mistake: { old, new: `return ${line(`${end} - 1`)}` },
    issue: random.pick(wording(inclusive, name, end)),
  };
}
