/** Wrong key: the code reads a dictionary at the wrong key. The issue names the right one. */

import { asNumber, type Draft, type DraftInput, returning, type Value } from '../draft.ts';

function at(value: Value | undefined, key: string): number {
  if (typeof value !== 'object' || Array.isArray(value)) throw new TypeError('a dictionary was expected');
  return asNumber((value as { readonly [key: string]: number })[key]);
}

export function wrongKey({ random, names }: DraftInput): Draft {
  const name = names.next();
  const a = names.next();
  const [right, broken] = [names.next(), names.next()];
  const factor = random.chance(0.4) ? random.integer(2, 9) : undefined;
  const tail = factor === undefined ? '' : ` * ${factor}`;
  const line = (key: string): string => `${a}["${key}"]${tail}`;
  const old = `return ${line(broken)}`;
  return {
    family: 'wrong-key',
    functions: [
      {
        name,
        parameters: [a],
        body: returning(line(right)),
        reference: (x) => at(x, right) * (factor ?? 1),
        sample: (r) => [{ [broken]: r.integer(1, 20), [right]: r.integer(21, 40) }],
      },
    ],
    target: name,
    broken: returning(line(broken)),
    fix: { old, new: `return ${line(right)}` },
    mistake: { old, new: `return ${a}.get("${broken}")${tail}` },
    issue: random.pick([
      `\`${name}\` should read the key \`${right}\`.`,
      `\`${name}\` looks up the wrong key; \`${right}\` is meant.`,
      `The value that \`${name}\` needs is under \`${right}\`.`,
    ]),
  };
}
