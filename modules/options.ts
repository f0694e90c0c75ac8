/** Options of a user's or a built-in definition, checked by its own schema. */

import { z } from 'zod';
import { didYouMean } from '../protocol/closest.ts';
import { UserInputError } from '../protocol/user-input-error.ts';

/** An environment, an agent or another definition that may have options. */
export interface WithOptions {
  readonly name: string;
  /** Absent: it takes none. */
  readonly options?: z.ZodType;
}

type Options = Readonly<Record<string, unknown>>;

/** What to give instead. A schema's own message stays. */
function remedyOf(issue: z.core.$ZodIssue | undefined): string {
  const said = issue?.message ?? 'see the documentation';
  const wrongType = /^Invalid input: expected (\w+), received \w+$/.exec(said)?.[1];
  if (wrongType !== undefined) return `give a ${wrongType === 'record' ? 'list of names and values' : wrongType}`;
  return said.replace(/^Invalid (?:input|option): expected (?:one of )?/, 'give one of ');
}

/** Errors: `UserInputError` for the first unknown name, with the known one that it probably means. */
function refuseUnknown(
  { keys, path }: z.core.$ZodIssueUnrecognizedKeys,
  options: Options,
  schema: z.ZodType,
  field: string,
): never {
  const [name = ''] = keys;
  const inner = path.reduce<unknown>((all, part) => (all as Options | undefined)?.[String(part)], options);
  const known = path.length === 0 && schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  throw new UserInputError(
    [field, ...path.map(String), name].join('.'),
    (inner as Options | undefined)?.[name],
    `remove it, there is no such option${didYouMean(name, known)}`,
  );
}

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
  const { issues } = parsed.error;
  // A wrong name is why another one is missing.
  const unknown = issues.find((issue) => issue.code === 'unrecognized_keys');
  if (unknown) refuseUnknown(unknown, options as Options, schema, field);
  const [issue] = issues;
  const path = (issue?.path ?? []).map(String);
  const value = path.reduce<unknown>((inner, part) => (inner as Record<string, unknown> | undefined)?.[part], options);
  throw new UserInputError([field, ...path].join('.'), value, remedyOf(issue));
}
