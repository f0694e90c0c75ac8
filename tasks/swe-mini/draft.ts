/** A draft: functions of a module. One of them has a bug, which replacing one line repairs. */

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

/** Arguments and results of the generated functions. Except for booleans, their JSON is also a Python literal. */
export type Value = number | boolean | readonly number[] | { readonly [key: string]: number };

export interface DraftFunction {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Body lines of the correct version, indented by four spaces. */
  readonly body: readonly string[];
  /** The result of the correct version: `body` in TypeScript. */
  readonly reference: (...values: readonly Value[]) => Value;
  /** Arguments of test case `n`. Any three consecutive cases distinguish the correct version from the broken one. */
  readonly sample: (random: Random, n: number) => readonly Value[];
}

/** Replaces `old`, which occurs once in the module, by `new`. Neither starts or ends with white space. */
export interface Edit {
  readonly old: string;
  readonly new: string;
}

export interface Draft {
  readonly family: Family;
  /** In the order of the module. */
  readonly functions: readonly DraftFunction[];
  /** Name of the function with the bug. */
  readonly target: string;
  /** Body lines of the target with the bug. */
  readonly broken: readonly string[];
  readonly fix: Edit;
  /** A plausible edit that does not repair it. */
  readonly mistake: Edit;
  /** One sentence that states the required behaviour exactly; names are in backticks. */
  readonly issue: string;
}

export interface DraftInput {
  readonly random: Random;
  readonly names: NameSource;
}

export type DraftMaker = (input: DraftInput) => Draft;

/** Errors: `TypeError` if a generated function was called with a value of another type. */
export function asNumber(value: Value | undefined): number {
  if (typeof value !== 'number') throw new TypeError(`a number was expected, got ${JSON.stringify(value)}`);
  return value;
}

/** A body with one return line. */
export function returning(expression: string): string[] {
  return [`    return ${expression}`];
}
