/**
 * Secrets of tools that run in the worker: values of environment variables, for those names alone that LONGHAUL_SECRETS
 * lists. No value is in a record, a history or an error: what a tool answers and throws passes through `redact`.
 */

import { inspect } from 'node:util';
import { UserInputError } from '../../protocol/user-input-error.ts';

/** Names of environment variables, separated by commas. */
export const SECRETS_VARIABLE = 'LONGHAUL_SECRETS';

/** A shorter value would be removed from texts that do not mean it. */
const LEAST = 4;

/** Each secret may also be part of a URL or of JSON. */
const formsOf = (value: string): string[] => [value, encodeURIComponent(value), JSON.stringify(value).slice(1, -1)];

export class Secrets {
  readonly #values: ReadonlyMap<string, string | undefined>;
  /** Forms of the values, the longest first: one value may be a part of another one. */
  readonly #forms: ReadonlyArray<readonly [form: string, name: string]>;

  constructor(env: Readonly<Record<string, string | undefined>>) {
    const names = (env[SECRETS_VARIABLE] ?? '').split(',').map((name) => name.trim());
    this.#values = new Map(names.filter((name) => name !== '').map((name) => [name, env[name]]));
    this.#forms = [...this.#values]
      .flatMap(([name, value = '']) => formsOf(value).map((form) => [form, name] as const))
      .filter(([form]) => form.length >= LEAST)
      .toSorted(([a], [b]) => b.length - a.length);
  }

  /** Errors: `UserInputError` for a name that is not listed, and for a variable that is not set or too short. */
  get(name: string): string {
    if (!this.#values.has(name))
      throw new UserInputError(
        SECRETS_VARIABLE,
        [...this.#values.keys()].join(','),
        `add ${name}, which a tool asks for, and start the workers again`,
      );
    const value = this.#values.get(name);
    if (value === undefined || value.length < LEAST)
      throw new UserInputError(
        name,
        value === undefined ? undefined : '…',
        `set it in the environment of the workers to a text of at least ${LEAST} characters`,
      );
    return value;
  }

  /** The text with `[secret NAME]` in place of each value. */
  redact(text: string): string {
    return this.#forms.reduce((rest, [form, name]) => rest.replaceAll(form, `[secret ${name}]`), text);
  }

  /** The error as it is; or, if it or one of its causes has a secret, one of the same name, without causes. */
  redactError(error: unknown): unknown {
    const whole = inspect(error, { depth: 10, maxStringLength: null, maxArrayLength: null });
    if (!this.#forms.some(([form]) => whole.includes(form))) return error;
    const { name, message, stack } = error instanceof Error ? error : new Error(whole);
    const clean = new Error(this.redact(message));
    clean.name = name;
    clean.stack = this.redact(stack ?? '');
    return clean;
  }
}
