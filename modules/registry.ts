/** Registries of named parts, to which users can add. Once defined, a name means one part until the process ends. */

import { loadingModule } from './import-own.ts';
import { didYouMean } from './closest.ts';

/** A name that is not defined. */
export class UnknownName extends TypeError {
  override readonly name = 'UnknownName';
}

/** A name that is already defined. */
export class NameTaken extends TypeError {
  override readonly name = 'NameTaken';
  /** The users' modules that define it: the first one, and the present one. */
  readonly modules: readonly [first: string | undefined, now: string | undefined];

  constructor(what: string, first: string | undefined, now: string | undefined) {
    const whose =
      first === undefined
        ? ''
        : `, by ${first}${now === undefined ? '' : first === now ? ' itself' : `, and ${now} defines it too`}`;
    const stays = first === undefined ? '' : '; a process keeps what it has loaded until it restarts';
    super(`${what} is already defined${whose}: give another name${stays}`);
    this.modules = [first, now];
  }
}

export class Registry<T> {
  readonly #kind: string;
  readonly #parts: Map<string, T>;
  /** By name: the user's module that defined it. */
  readonly #modules: Map<string, string>;

  /** Its contents are on the process's global object: a user's module may import another copy of this package. */
  constructor(kind: string, builtIn: Readonly<Record<string, T>>) {
    const shared = globalThis as unknown as Record<symbol, Map<string, unknown> | undefined>;
    const mapOf = <V>(what: string, initial: Readonly<Record<string, V>>) =>
      (shared[Symbol.for(what)] ??= new Map(Object.entries(initial))) as Map<string, V>;
    this.#kind = kind;
    this.#parts = mapOf(`longhaul ${kind}`, builtIn);
    this.#modules = mapOf<string>(`longhaul ${kind} modules`, {});
  }

  /** Errors: `NameTaken`. */
  define(name: string, part: T): void {
    const module = loadingModule();
    if (this.#parts.has(name)) throw new NameTaken(`${this.#kind} ${name}`, this.#modules.get(name), module);
    this.#parts.set(name, part);
    if (module !== undefined) this.#modules.set(name, module);
  }

  /** The user's module that defined `name`. `undefined` for a built-in part, or one that a program defined. */
  moduleOf(name: string): string | undefined {
    return this.#modules.get(name);
  }

  has(name: string): boolean {
    return this.#parts.has(name);
  }

  /** Errors: `UnknownName`, which lists the known ones. */
  get(name: string): T {
    const part = this.#parts.get(name);
    if (part !== undefined) return part;
    throw new UnknownName(
      `there is no ${this.#kind} ${name}; known: ${this.names().join(', ')}${didYouMean(name, this.names())}`,
    );
  }

  get parts(): ReadonlyMap<string, T> {
    return this.#parts;
  }

  names(): string[] {
    return [...this.#parts.keys()];
  }
}
