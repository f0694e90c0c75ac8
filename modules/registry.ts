/**
 * Registries of named parts, to which users can add. Once defined, a name means one part until the process ends. Parts
 * that a bundle of a run's modules defines are known under the bundle's digest alone.
 */

import { loadingNow } from './loading.ts';
import { didYouMean } from '../protocol/closest.ts';

/** A name that is not defined. */
export class UnknownName extends TypeError {
  override readonly name = 'UnknownName';
}

/** A name that is already defined. */
export class NameTaken extends TypeError {
  override readonly name = 'NameTaken';

  /** `by`: what defines it. Absent: a program. */
  constructor(what: string, by?: string) {
    super(`${what} is already defined${by === undefined ? '' : `, by ${by}`}: give another name`);
  }
}

export class Registry<T> {
  readonly #kind: string;
  readonly #builtIn: Readonly<Record<string, T>>;
  readonly #parts: Map<string, T>;
  /** By digest of a bundle, then by name. */
  readonly #bundled: Map<string, Map<string, T>>;

  /** Its contents are on the process's global object: a user's module may import another copy of this package. */
  constructor(kind: string, builtIn: Readonly<Record<string, T>>) {
    const shared = globalThis as unknown as Record<symbol, Map<string, unknown> | undefined>;
    const mapOf = <V>(what: string, initial: Readonly<Record<string, V>>) =>
      (shared[Symbol.for(what)] ??= new Map(Object.entries(initial))) as Map<string, V>;
    this.#kind = kind;
    this.#builtIn = builtIn;
    this.#parts = mapOf(`longhaul ${kind}`, builtIn);
    this.#bundled = mapOf<Map<string, T>>(`longhaul ${kind} of bundles`, {});
  }

  /**
   * A bundle may define what a program defines by another definition, but nothing that is built in. Errors:
   * `NameTaken`.
   */
  define(name: string, part: T): void {
    if (Object.hasOwn(this.#builtIn, name)) throw new NameTaken(`${this.#kind} ${name}`, 'Longhaul');
    const loading = loadingNow();
    if (loading === undefined) {
      if (this.#parts.has(name)) throw new NameTaken(`${this.#kind} ${name}`);
      this.#parts.set(name, part);
      return;
    }
    const { bundle, module } = loading;
    const parts = this.#bundled.get(bundle) ?? new Map<string, T>();
    this.#bundled.set(bundle, parts);
    if (parts.has(name)) throw new NameTaken(`${this.#kind} ${name}`, `${module} itself`);
    parts.set(name, part);
  }

  /** `modules`: digest of the bundle whose parts count too, before others of the same name. It must be imported. */
  has(name: string, modules?: string): boolean {
    return this.of(modules).has(name);
  }

  /** Errors: `UnknownName`, which lists the known ones. */
  get(name: string, modules?: string): T {
    const part = this.of(modules).get(name);
    if (part !== undefined) return part;
    const names = this.names(modules);
    throw new UnknownName(`there is no ${this.#kind} ${name}; known: ${names.join(', ')}${didYouMean(name, names)}`);
  }

  /** All parts by name, those of the bundle `modules` included. */
  of(modules?: string): ReadonlyMap<string, T> {
    const bundled = modules === undefined ? undefined : this.#bundled.get(modules);
    return bundled === undefined ? this.#parts : new Map([...this.#parts, ...bundled]);
  }

  names(modules?: string): string[] {
    return [...this.of(modules).keys()];
  }
}
