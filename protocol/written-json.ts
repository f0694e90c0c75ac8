/**
 * JSON whose numbers and keys stay as they were written: `12.0` is not `12`, and no digit of a long integer is lost.
 * Values that JavaScript cannot represent have their own types here; all others are as `JSON.parse` returns them.
 */

/** A number with a point or an exponent whose value is whole or too large for a double. Python reads it as a float. */
export class WrittenFloat {
  readonly source: string;

  constructor(source: string) {
    this.source = source;
  }

  get value(): number {
    return Number(this.source);
  }
}

/**
 * As `JSON.parse` returns it, except for floats with a whole value, long integers, and objects with keys that
 * JavaScript would reorder.
 */
export type Written =
  | null
  | boolean
  | number
  | string
  | bigint
  | WrittenFloat
  | readonly Written[]
  | { readonly [key: string]: Written }
  | ReadonlyMap<string, Written>;

const TOKEN = /[\s]*([{}[\],:]|"[^"\\]*(?:\\.[^"\\]*)*"|[^\s{}[\],:"]+)/gy;
/** JavaScript moves these keys to the front of an object, in ascending order. */
const MOVED_KEY = /^(?:0|[1-9]\d*)$/u;

function readNumber(source: string): Written {
  const value = Number(source);
  const isFloat = /[.eE]/u.test(source);
  if (isFloat) return Number.isInteger(value) || !Number.isFinite(value) ? new WrittenFloat(source) : value;
  return Number.isSafeInteger(value) ? value : BigInt(source);
}

/**
 * Most levels of nested arrays and objects. Copies, checks, records and templates need stack for each level: a deeper
 * value from a policy would overflow it.
 */
export const MAX_DEPTH = 200;

/** True if a plain value is nested deeper than `MAX_DEPTH`. */
export function isTooDeep(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((child) => isTooDeep(child, levels - 1));
}

/** Reads a text that is already known to be valid JSON. */
class Reader {
  readonly #tokens: Iterator<RegExpExecArray>;
  #depth = 0;

  constructor(text: string) {
    this.#tokens = text.matchAll(TOKEN);
  }

  #next(): string {
    const { value } = this.#tokens.next() as { readonly value?: RegExpExecArray };
    return value?.[1] ?? '';
  }

  read(token: string = this.#next()): Written {
    if (token === '{' || token === '[') return this.#nested(token);
    return /^[-\d]/u.test(token) ? readNumber(token) : (JSON.parse(token) as string | boolean | null);
  }

  #nested(open: '{' | '['): Written {
    if (this.#depth === MAX_DEPTH) throw new SyntaxError(`nested more than ${MAX_DEPTH} deep`);
    this.#depth += 1;
    const value = open === '{' ? this.#object() : this.#array();
    this.#depth -= 1;
    return value;
  }

  #array(): Written[] {
    const values: Written[] = [];
    for (let token = this.#next(); token !== ']'; token = this.#next())
      if (token !== ',') values.push(this.read(token));
    return values;
  }

  #object(): Written {
    const entries = new Map<string, Written>();
    for (let token = this.#next(); token !== '}'; token = this.#next()) {
      if (token === ',') continue;
      const key = JSON.parse(token) as string;
      this.#next();
      entries.set(key, this.read());
    }
    return [...entries.keys()].some((key) => MOVED_KEY.test(key)) ? entries : Object.fromEntries(entries);
  }
}

/** Errors: `SyntaxError`, as `JSON.parse` throws it, and for a value nested deeper than `MAX_DEPTH`. */
export function readWritten(text: string): Written {
  JSON.parse(text);
  return new Reader(text).read();
}

const isNumber = (value: unknown): value is WrittenFloat | bigint =>
  value instanceof WrittenFloat || typeof value === 'bigint';

/** The entries of an object or a `Map`. */
export const entriesOf = (value: object): Array<[string, unknown]> =>
  value instanceof Map ? [...(value as Map<string, unknown>)] : Object.entries(value);

/** The member of an object or a `Map`. `undefined` for any other value. */
export function memberOf(value: unknown, name: string): unknown {
  if (value instanceof Map) return (value as Map<string, unknown>).get(name);
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined;
}

/** Plain values, as `JSON.parse` would have returned them. */
export function plainOf(value: unknown): unknown {
  if (isNumber(value)) return typeof value === 'bigint' ? Number(value) : value.value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(plainOf);
  return Object.fromEntries(entriesOf(value).map(([key, child]) => [key, plainOf(child)]));
}

/** JSON without spaces, as `JSON.stringify` writes it, with numbers and keys as they were written. */
export function writtenText(value: unknown): string {
  if (isNumber(value)) return typeof value === 'bigint' ? String(value) : value.source;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(writtenText).join(',')}]`;
  return `{${entriesOf(value)
    .map(([key, child]) => `${JSON.stringify(key)}:${writtenText(child)}`)
    .join(',')}}`;
}
