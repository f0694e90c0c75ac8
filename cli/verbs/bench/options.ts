/** What benches read off the command line, checked before anything begins. */

import { UserInputError } from '../../errors.ts';

export function count(name: string, text: string, least: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new UserInputError(`--${name}`, text, `give a whole number of at least ${least}`);
}
