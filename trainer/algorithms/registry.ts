/** Named parts that one can add to: a name, once taken, stands for one part until the process ends. */

/** A name that nobody defined. */
export class UnknownName extends TypeError {
  override readonly name = 'UnknownName';
}

export class Registry<T> {
  readonly #kind: string;
  readonly #parts: Map<string, T>;

  /**
   * Kept on the process's global object by its kind: a module of one's own may have come by another copy of this package.
   */
  constructor(kind: string, builtIn: Readonly<Record<string, T>>) {
    const shared = globalThis as unknown as Record<symbol, Map<string, T> | undefined>;
    this.#kind = kind;
    this.#parts = shared[Symbol.for(`longhaul ${kind}`)] ??= new Map(Object.entries(builtIn));
  }

  /** Errors: a `TypeError` where the name is taken. */
  define(name: string, part: T): void {
    if (this.#parts.has(name)) throw new TypeError(`${this.#kind} ${name} is there already: give another name`);
    this.#parts.set(name, part);
  }

  has(name: string): boolean {
    return this.#parts.has(name);
  }

  /** Errors: `UnknownName`, which lists the known ones. */
  get(name: string): T {
    const part = this.#parts.get(name);
    if (part !== undefined) return part;
    throw new UnknownName(`there is no ${this.#kind} ${name}; known: ${this.names().join(', ')}`);
  }

  get parts(): ReadonlyMap<string, T> {
    return this.#parts;
  }

  names(): string[] {
    return [...this.#parts.keys()];
  }
}
