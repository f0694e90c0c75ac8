/** A mutation: the smallest edit that takes the handling of one fault out, and the tests that must fail for it. */

export interface Mutation {
  /** Unique; what is taken out, in a few words. */
  readonly name: string;
  /** The fault, as the table of docs/reliability.md names it. */
  readonly fault: string;
  readonly file: string;
  /** Occurs exactly once in `file`. */
  readonly before: string;
  readonly after: string;
  readonly tests: readonly Killer[];
}

/** A test that fails without the handling, by a part of its full name: the names of its `describe`s, then its own. */
export interface Killer {
  readonly file: string;
  readonly test: string;
  /** Without the handling something waits for ever: that the test ran out of its time is how it fails. */
  readonly hangs?: true;
}

export function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}

/** Errors: `TypeError` where `before` is not in `text` exactly once. */
export function mutated(text: string, { name, file, before, after }: Mutation): string {
  const found = occurrences(text, before);
  if (found !== 1)
    throw new TypeError(`${name}: \`before\` occurs ${found} times in ${file}; make it what the code is now`);
  return text.replace(before, () => after);
}
