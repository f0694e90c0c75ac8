/** Checks a user's definition of a task or a tool at once, so that a mistake is reported before any rollout starts. */

import { closest } from '../protocol/closest.ts';

/** An invalid definition of a task or a tool: the message has the member, its value, and the remedy. */
export class DefinitionRefused extends TypeError {
  override readonly name = 'DefinitionRefused';
}

const shown = (value: unknown): string => {
  if (typeof value === 'function') return 'a function';
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
};

/** The members of one definition. */
export class Definition {
  readonly #what: string;
  readonly #members: Readonly<Record<string, unknown>>;

  /** `by`: the defining function (`defineTool`). Errors: `DefinitionRefused` without an object or a valid name. */
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

  /** Checks that these members are functions. Errors: `DefinitionRefused`, with a similar name if there is one. */
  functions(names: readonly string[], optional: readonly string[] = []): void {
    for (const name of [...names, ...optional]) {
      const value = this.#members[name];
      if (typeof value === 'function' || (value === undefined && optional.includes(name))) continue;
      const others = Object.keys(this.#members).filter(
        (one) => !names.includes(one) && !optional.includes(one) && one !== 'name',
      );
      const meant = value === undefined ? closest(name, others) : undefined;
      throw this.refused(name, value, `give a function${meant === undefined ? '' : ` (is it misspelt as ${meant}?)`}`);
    }
  }

  text(name: string): void {
    const value = this.#members[name];
    if (typeof value !== 'string' || value.trim() === '') throw this.refused(name, value, 'give a text');
  }
}
