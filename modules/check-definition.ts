/** What somebody defines, looked at whole when it is defined: what is missing or wrong is named, not met by a rollout. */

import { closest } from './closest.ts';

/** A task or a tool that cannot be one: the member, what it is, and what to give. */
export class DefinitionRefused extends TypeError {
  override readonly name = 'DefinitionRefused';
}

const shown = (value: unknown): string => {
  if (typeof value === 'function') return 'a function';
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
};

/** The members of one definition, by `what` it defines (`defineTask`). */
export class Definition {
  readonly #what: string;
  readonly #members: Readonly<Record<string, unknown>>;

  /** Errors: `DefinitionRefused` for what is no object, or has no usable name. */
  constructor(by: string, given: unknown, namePattern: RegExp, nameRemedy: string) {
    this.#what = by;
    if (typeof given !== 'object' || given === null || Array.isArray(given))
      throw this.refused('definition', given, 'give an object');
    this.#members = given as Record<string, unknown>;
    const name = this.#members['name'];
    if (typeof name !== 'string' || !namePattern.test(name)) throw this.refused('name', name, nameRemedy);
    this.#what = `${by} ${JSON.stringify(name)}`;
  }

  member(name: string): unknown {
    return this.#members[name];
  }

  refused(member: string, value: unknown, remedy: string): DefinitionRefused {
    const was = value === undefined ? 'is missing' : `is ${shown(value)}`;
    return new DefinitionRefused(`${this.#what}: ${member} ${was}; ${remedy}`);
  }

  /** Errors: `DefinitionRefused`, which names a member of nearly that name. */
  functions(names: readonly string[], optional: readonly string[] = []): void {
    for (const name of [...names, ...optional]) {
      const value = this.#members[name];
      if (typeof value === 'function' || (value === undefined && optional.includes(name))) continue;
      const others = Object.keys(this.#members).filter(
        (one) => !names.includes(one) && !optional.includes(one) && one !== 'name',
      );
      const meant = value === undefined ? closest(name, others) : undefined;
      throw this.refused(name, value, `give a function${meant === undefined ? '' : ` (did you mean it by ${meant}?)`}`);
    }
  }

  text(name: string): void {
    const value = this.#members[name];
    if (typeof value !== 'string' || value.trim() === '') throw this.refused(name, value, 'give a text');
  }
}
