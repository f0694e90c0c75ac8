/** What a user got wrong. */

/** JSON has no word for a number that is none, or too large. */
const written = (value: unknown): string => (typeof value === 'number' ? String(value) : JSON.stringify(value));

/** What a user got wrong: the field, its value (`undefined`: it is missing), and what to do. */
export class UserInputError extends Error {
  override readonly name = 'UserInputError';
  readonly field: string;
  readonly value: unknown;
  readonly remedy: string;

  constructor(field: string, value: unknown, remedy: string, options?: ErrorOptions) {
    super(
      value === undefined ? `${field} is missing; ${remedy}` : `${field}: ${written(value)} cannot be used; ${remedy}`,
      options,
    );
    this.field = field;
    this.value = value ?? null;
    this.remedy = remedy;
  }
}
