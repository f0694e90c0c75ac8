/** Options of a user's or a built-in definition, checked by its own schema. */

import type { z } from 'zod';
import { UserInputError } from '../protocol/user-input-error.ts';

/** An environment, an agent or another definition that may have options. */
export interface WithOptions {
  readonly name: string;
  /** Absent: it takes none. */
  readonly options?: z.ZodType;
}

type Options = Readonly<Record<string, unknown>>;

/**
 * `given` with the schema's defaults. Errors: `UserInputError` for the first option that cannot be used, under `field`
 * (`task.options`).
 */
export function resolveOptions({ name, options: schema }: WithOptions, given: unknown, field: string): Options {
  const options = given ?? {};
  if (typeof options !== 'object' || Array.isArray(options))
    throw new UserInputError(field, given, 'give names and values');
  if (schema === undefined) {
    const [first] = Object.entries(options);
    if (first === undefined) return {};
    throw new UserInputError(`${field}.${first[0]}`, first[1], `remove it: ${name} takes no options`);
  }
  const parsed = schema.safeParse(options);
  if (parsed.success) return parsed.data as Options;
  const [issue] = parsed.error.issues;
  const path = (issue?.path ?? []).map(String);
  const value = path.reduce<unknown>((inner, part) => (inner as Record<string, unknown> | undefined)?.[part], options);
  throw new UserInputError([field, ...path].join('.'), value, issue?.message ?? 'see the documentation');
}
