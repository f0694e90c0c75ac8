/** Whole numbers off the command line, checked before anything begins. */

import { UserInputError } from '../client/errors.ts';

/** Errors: `UserInputError` that names the option, what was given, and what to give. */
export function wholeNumber(option: string, text: string, least: number, most?: number): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least && value <= (most ?? value)) return value;
  throw new UserInputError(
    option,
    text,
    most === undefined ? `give a whole number of at least ${least}` : `give a whole number from ${least} to ${most}`,
  );
}
