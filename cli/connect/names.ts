/** Resolves names of runs, evals and rollouts as people type them: in full, as a unique prefix, or misspelled. */

import { UserInputError } from '../../client/errors.ts';

const SHOWN = 10;

/** The last part of an id: it distinguishes the rollouts of one task, and is an eval's own name. */
export const lastPart = (name: string): string => name.slice(name.lastIndexOf('/') + 1);

/** The first ten, and how many there are. */
export const someOf = (names: readonly string[]): string =>
  `${names.slice(0, SHOWN).join(', ')}${names.length > SHOWN ? `, … (${names.length} in all)` : ''}`;

/**
 * Returns the one of `names` that equals `given`, or else the only one that starts with it, as a whole or in its last
 * part. Returns `undefined` if there is none. Errors: `UserInputError` for `field`, with the candidates, if several do.
 */
export function fullName(given: string, names: readonly string[], field: string): string | undefined {
  if (names.includes(given)) return given;
  const matches = [...new Set(names)].filter((name) => name.startsWith(given) || lastPart(name).startsWith(given));
  if (matches.length <= 1) return matches[0];
  throw new UserInputError(field, given, `several names start with it: give one of ${someOf(matches)}`);
}

/** Levenshtein distance: the insertions, deletions and changes of characters that turn one into the other. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [at, character] of Array.from(one).entries()) {
    const next = [at + 1];
    for (const [index, expected] of Array.from(other).entries()) {
      next.push(
        Math.min(
          (next[index] ?? 0) + 1,
          (row[index + 1] ?? 0) + 1,
          (row[index] ?? 0) + (character === expected ? 0 : 1),
        ),
      );
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** `did you mean NAME? ` for the name that is nearest to `given`; empty if none is near. */
export function didYouMean(given: string, names: readonly string[]): string {
  const near = names
    .map((name) => ({ name, by: Math.min(distance(given, name), distance(given, lastPart(name))) }))
    .filter(({ by }) => by <= Math.max(1, Math.floor(given.length / 3)))
    .sort((a, b) => a.by - b.by);
  return near[0] === undefined ? '' : `did you mean ${near[0].name}? `;
}
