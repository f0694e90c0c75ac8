/** The error for a wrong input of a user. */

/** JSON cannot represent `NaN` and infinity. */
const written = (value: unknown): string => (typeof value === 'number' ? String(value) : JSON.stringify(value));

/** A wrong input of a user: the field, its value (`undefined`: it is missing), and the remedy. */
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
