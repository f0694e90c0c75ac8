/** Values in task files with places for variables: `${NAME}` and `${NAME:-default}`. Nothing of the process is read. */

import { UserInputError } from '../../protocol/user-input-error.ts';

const PLACE = /\$\{(\w+)(?::-([^}]*))?\}/gu;

/** A dictionary by name, in which prototypes are not seen. */
export type Variables = Readonly<Record<string, string>>;

const valueOf = (variables: Variables, name: string): string | undefined =>
  Object.hasOwn(variables, name) ? variables[name] : undefined;

/**
 * The text with its places filled. An empty variable counts as missing, as in a shell. Errors: `UserInputError` under
 * `field` for a variable that has neither a value nor a default.
 */
export function filled(text: string, variables: Variables, field: string): string {
  return text.replaceAll(PLACE, (place, name: string, fallback: string | undefined) => {
    const value = valueOf(variables, name);
    if (value !== undefined && (value !== '' || fallback === undefined)) return value;
    if (fallback !== undefined) return fallback;
    throw new UserInputError(field, place, `give the variable in the environment's options: env: { ${name}: … }`);
  });
}

/** Each value filled. */
export const filledAll = (values: Variables, variables: Variables, field: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, filled(value, variables, `${field}.${name}`)]),
  );
