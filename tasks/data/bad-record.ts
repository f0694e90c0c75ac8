/** Invalid records: each has its file, its number and its field, and the first ones are reported together. */

import type { z } from 'zod';

const sentence = (file: string, number: number, field: string, reason: string): string =>
  `${file}${number === 0 ? '' : `, record ${number}`}${field === '' ? '' : `, field ${field}`}: ${reason}`;

/** An invalid record. Its message has those that follow too, one a line. */
export class BadRecord extends Error {
  override readonly name = 'BadRecord';
  readonly file: string;
  /** From 1: the line, the element of the array, or the row without a table's header. 0: the file as a whole. */
  readonly number: number;
  /** Dotted. Empty for the whole record. */
  readonly field: string;
  /** What is wrong with it. */
  readonly reason: string;
  /** The bad records that were found after this one. */
  readonly more: readonly BadRecord[];

  constructor(file: string, number: number, field: string, reason: string, more: readonly BadRecord[] = []) {
    super([sentence(file, number, field, reason), ...more.map(({ message }) => message)].join('\n'));
    this.file = file;
    this.number = number;
    this.field = field;
    this.reason = reason;
    this.more = more;
  }
}

/** Reading stops at this number: if the mapping of fields is wrong, every record is bad. */
const MOST = 10;

/** The bad records so far, of one file or of several. */
export class Faults {
  readonly #found: BadRecord[] = [];

  /** Errors: `BadRecord`, if there are enough of them. */
  add(file: string, number: number, field: string, reason: string): void {
    this.#found.push(new BadRecord(file, number, field, reason));
    if (this.#found.length >= MOST) this.check();
  }

  get count(): number {
    return this.#found.length;
  }

  /** Errors: `BadRecord`, if there is one. */
  check(): void {
    const [first, ...more] = this.#found;
    if (first === undefined) return;
    throw new BadRecord(first.file, first.number, first.field, first.reason, more);
  }
}

/** Of bytes: read as UTF-8, a character of another encoding would become U+FFFD, and the record another one. */
export const NOT_UTF8 = 'it is not UTF-8: write the file again in this encoding';

/** Of a file: an empty one is mostly a wrong path, or a program that failed. */
export const NO_RECORDS = 'the file has no records: give a file with at least one';

/** A record as a file has it: a value, or the reason why it has none. */
export type RawRecord = { readonly number: number } & ({ readonly value: unknown } | { readonly problem: string });

/** `JSON.parse` has no limit of depth, but what reads or writes a value calls itself for each level. */
const isTooDeep = (value: unknown): boolean => {
  try {
    JSON.stringify(value);
    return false;
  } catch (error) {
    if (error instanceof RangeError) return true;
    throw error;
  }
};

/** The record by the schema, in a list; none if it is bad. Errors: those of `faults`. */
export function checked<Row>(file: string, raw: RawRecord, schema: z.ZodType<Row>, faults: Faults): readonly Row[] {
  const { number } = raw;
  if ('problem' in raw) {
    faults.add(file, number, '', raw.problem);
    return [];
  }
  if (isTooDeep(raw.value)) {
    faults.add(file, number, '', 'it has too many objects or arrays inside of each other');
    return [];
  }
  const parsed = schema.safeParse(raw.value);
  if (parsed.success) return [parsed.data];
  const [issue] = parsed.error.issues;
  faults.add(file, number, (issue?.path ?? []).join('.'), issue?.message ?? 'it is invalid');
  return [];
}
