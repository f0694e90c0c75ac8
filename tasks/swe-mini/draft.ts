/** A draft: functions of a module, of which one carries a bug that replacing one line repairs. */

import type { Random } from '../random.ts';
import type { NameSource } from './names.ts';

export const FAMILIES = [
  'wrong-operator',
  'off-by-one',
  'swapped-arguments',
  'missing-return',
  'wrong-constant',
  'missing-base-case',
  'wrong-key',
  'wrong-comparison',
] as const;

export type Family = (typeof FAMILIES)[number];

/** What the generated functions take and give: their Python literals are these values' JSON, but for booleans. */
export type Value = number | boolean | readonly number[] | { readonly [key: string]: number };

export interface DraftFunction {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Body lines of the right version, indented by four spaces. */
  readonly body: readonly string[];
  /** What the right version returns: TypeScript's twin of `body`. */
  readonly reference: (...values: readonly Value[]) => Value;
  /** Arguments of test case `n`; any three neighbouring cases tell the right version from the broken one. */
  readonly sample: (random: Random, n: number) => readonly Value[];
}

/** Replacing `old`, which stands once in the module, by `new`. Neither begins or ends with white space. */
export interface Edit {
  readonly old: string;
  readonly new: string;
}

export interface Draft {
  readonly family: Family;
  /** In the order in which they stand in the module. */
  readonly functions: readonly DraftFunction[];
  /** Name of the function that the bug is in. */
  readonly target: string;
  /** Body lines of the target with the bug. */
  readonly broken: readonly string[];
  readonly fix: Edit;
  /** A plausible edit that does not repair it. */
  readonly mistake: Edit;
  /** One sentence that says exactly what is needed; names in backticks. */
  readonly issue: string;
}

export interface DraftInput {
  readonly random: Random;
  readonly names: NameSource;
}

export type DraftMaker = (input: DraftInput) => Draft;

/** Errors: `TypeError`: a generated function was called with what it does not take. */
export function asNumber(value: Value | undefined): number {
  if (typeof value !== 'number') throw new TypeError(`a number was expected, got ${JSON.stringify(value)}`);
  return value;
}

/** The body line that holds one return. */
export function returning(expression: string): string[] {
  return [`    return ${expression}`];
}
