/**
 * Arguments of a tool call, checked against its parameters. A text stays exactly as written. Numbers, booleans, lists
 * and objects may also be given as text, since the text format of tool calls has only texts.
 */

import {
  compileSchema,
  expectedBy,
  isSchema,
  type JsonSchema,
  type ObjectSchema,
  type SchemaCheck,
} from './json-schema.ts';

/** Any JSON Schema, with a description for the policy. */
export type ToolParameter = JsonSchema & { readonly description: string };

export type ToolParameters = Readonly<Record<string, ToolParameter>>;

/** A mistake of the policy: the message names the parameter, the given value and what is allowed. */
export class ToolArgumentError extends Error {
  override readonly name = 'ToolArgumentError';
  readonly tool: string;
  readonly parameter: string;

  constructor(tool: string, parameter: string, message: string) {
    super(message);
    this.tool = tool;
    this.parameter = parameter;
  }
}

const SHOWN = 40;

export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}

/**
 * Types that a text is converted to by the type alone. Of others, a text is read as JSON if the schema takes no text.
 */
const SCALARS = ['string', 'integer', 'number', 'boolean'];

const isWholeList = ({ type, items }: JsonSchema): boolean =>
  type === 'array' && isSchema(items) && items['type'] === 'integer' && Object.keys(items).length === 1;

function fromText(type: unknown, value: unknown): unknown {
  if (typeof value !== 'string' || type === 'string') return value;
  try {
    const parsed: unknown = JSON.parse(value.trim().toLowerCase());
    return parsed;
  } catch {
    return value;
  }
}

/** The value, converted to the parameter's type; `undefined` if it has another type. */
function coerce({ type }: JsonSchema, given: unknown): unknown {
  const value = fromText(type, given);
  if (type === 'string') return typeof value === 'string' ? value : undefined;
  if (type === 'boolean') return typeof value === 'boolean' ? value : undefined;
  if (type === 'number') return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
  if (type === 'integer') return Number.isSafeInteger(value) ? Number(value) : undefined;
  const isList = Array.isArray(value) && value.every((item) => Number.isSafeInteger(item));
  return isList ? value.map(Number) : undefined;
}

/** Values deeper than this are refused: what compares or prints them calls itself once per level. */
const MAX_DEPTH = 200;

/** True if the value is nested deeper than `left` levels. */
export const isDeep = (value: unknown, left = MAX_DEPTH): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (left === 0 || Object.values(value).some((one) => isDeep(one, left - 1)));

/**
 * Checked arguments, by name and type. A tool that reads a parameter without having defined it is in error, and not its
 * policy: each method throws a `TypeError` for such a name.
 */
export class Arguments {
  private readonly tool: string;
  private readonly values: ReadonlyMap<string, unknown>;
  private readonly defined: readonly string[] | undefined;

  /** `defined`: the names that there are; absent: a policy may give others. */
  constructor(tool: string, values: ReadonlyMap<string, unknown>, defined?: readonly string[]) {
    this.tool = tool;
    this.values = values;
    this.defined = defined;
  }

  /** Errors: `ToolArgumentError` if it was not given. */
  text(name: string): string {
    const value = this.given(name, 'text');
    if (typeof value !== 'string')
      throw new ToolArgumentError(this.tool, name, `${this.tool} needs the parameter ${name}.`);
    return value;
  }

  optionalText(name: string): string | undefined {
    const value = this.given(name, 'optionalText');
    return typeof value === 'string' ? value : undefined;
  }

  /** The value of a `number` or `integer` parameter. */
  number(name: string): number | undefined {
    const value = this.given(name, 'number');
    return typeof value === 'number' ? value : undefined;
  }

  integer(name: string): number | undefined {
    const value = this.given(name, 'integer');
    return typeof value === 'number' ? value : undefined;
  }

  flag(name: string): boolean {
    return this.given(name, 'flag') === true;
  }

  integers(name: string): readonly number[] | undefined {
    const value = this.given(name, 'integers');
    return Array.isArray(value) && value.every((one) => typeof one === 'number') ? value : undefined;
  }

  /** The items of a list of texts. */
  texts(name: string): readonly string[] | undefined {
    const value = this.given(name, 'texts');
    return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined;
  }

  /** A value of any type, as its schema allows; `undefined` if it was not given. */
  value(name: string): unknown {
    return this.given(name, 'value');
  }

  /** All of them, by name. */
  all(): Readonly<Record<string, unknown>> {
    return Object.fromEntries(this.values);
  }

  /** The error to throw for a parameter with an invalid value. */
  wrong(name: string, remedy: string): ToolArgumentError {
    return new ToolArgumentError(this.tool, name, `${name} ${shown(this.given(name, 'wrong'))}: ${remedy}`);
  }

  /** The stack of its error starts at the tool's own line, which called `method`. */
  private given(name: string, method: keyof Arguments): unknown {
    if (this.defined?.includes(name) === false) {
      const has = this.defined.length === 0 ? 'none' : this.defined.join(', ');
      const error = new TypeError(`${this.tool} reads the parameter ${name}, which it does not define; it has ${has}`);
      Error.captureStackTrace(error, this[method]);
      throw error;
    }
    return this.values.get(name);
  }
}

const KNOWN = ['$schema', 'type', 'properties', 'required', 'additionalProperties', 'title', 'description'];

/** True if the types alone say what fits, so that no further check is needed. */
function isSimple(schema: JsonSchema): boolean {
  const { type, enum: values, ...others } = schema;
  const [rest] = Object.keys(others).filter(
    (name) => !['description', 'title', 'default'].includes(name) && !(name === 'items' && isWholeList(schema)),
  );
  if (rest !== undefined) return false;
  if (values !== undefined)
    return type === 'string' && Array.isArray(values) && values.every((value) => typeof value === 'string');
  return isWholeList(schema) || SCALARS.includes(String(type));
}

/** The schema without what it says of several properties together. */
function eachOf({ properties, $defs, definitions }: ObjectSchema): ObjectSchema {
  return {
    type: 'object',
    properties,
    ...($defs !== undefined && { $defs }),
    ...(definitions !== undefined && { definitions }),
  };
}

/** The schema of parameters by name. */
export function schemaOf(parameters: Readonly<Record<string, JsonSchema>>, required: readonly string[]): ObjectSchema {
  return { type: 'object', properties: parameters, required, additionalProperties: false };
}

/** Errors: those of `ArgumentReader.read`. */
export function readArguments(
  tool: string,
  parameters: Readonly<Record<string, JsonSchema>>,
  required: readonly string[],
  given: Readonly<Record<string, unknown>>,
): Arguments {
  return new ArgumentReader(tool, schemaOf(parameters, required)).read(given);
}

/** Reads the arguments of one tool's calls. */
export class ArgumentReader {
  readonly #tool: string;
  readonly #schema: ObjectSchema;
  readonly #properties: Readonly<Record<string, JsonSchema>>;
  readonly #isSimple: boolean;
  #compiled: SchemaCheck | string | undefined;
  /** Checks properties one by one. */
  #each: SchemaCheck | string | undefined;

  /** A schema that cannot be compiled is checked by the types of its properties alone. */
  constructor(tool: string, schema: ObjectSchema) {
    this.#tool = tool;
    this.#schema = schema;
    this.#properties = Object.fromEntries(
      Object.entries(schema['properties'] ?? {}).map(([name, one]: [string, unknown]) => [
        name,
        isSchema(one) ? one : {},
      ]),
    );
    this.#isSimple =
      schema['additionalProperties'] === false &&
      Object.keys(schema).every((keyword) => KNOWN.includes(keyword)) &&
      Object.values(this.#properties).every(isSimple);
  }

  /** Why calls cannot be checked against the whole schema; `undefined` if they can. */
  get unchecked(): string | undefined {
    const check = this.#isSimple ? undefined : this.#check();
    return typeof check === 'string' ? check : undefined;
  }

  /** Errors: `ToolArgumentError` for the first parameter that is unknown, missing or of the wrong type. */
  read(given: Readonly<Record<string, unknown>>): Arguments {
    const values = new Map<string, unknown>();
    for (const [name, value] of Object.entries(given)) {
      const typed = this.#typed(name, value);
      if (typed !== undefined) values.set(name, typed);
    }
    const required = (this.#schema['required'] ?? []) as readonly string[];
    for (const name of required)
      if (!values.has(name)) throw this.#error(name, `${this.#tool} needs the parameter ${name}.`);
    this.#checkAll(values);
    const isClosed = this.#schema['additionalProperties'] === false;
    return new Arguments(this.#tool, values, isClosed ? Object.keys(this.#properties) : undefined);
  }

  /** The value, converted if its type asks for that; `undefined` if it counts as not given. */
  #typed(name: string, value: unknown): unknown {
    const parameter = Object.hasOwn(this.#properties, name) ? this.#properties[name] : undefined;
    const fail = (remedy: string): ToolArgumentError => this.#error(name, `${name} ${shown(value)}: ${remedy}`);
    if (isDeep(value)) throw this.#error(name, `${name}: must not be nested deeper than ${MAX_DEPTH} levels.`);
    if (parameter === undefined) {
      if (this.#schema['additionalProperties'] !== false) return value;
      throw fail(`${this.#tool} has no such parameter; it has ${Object.keys(this.#properties).join(', ')}.`);
    }
    const { type, enum: values } = parameter;
    if (value === undefined || (value === null && !this.#takes(name, value))) return undefined;
    if (value === null || !(SCALARS.includes(String(type)) || isWholeList(parameter)))
      return this.#read(name, parameter, value);
    const typed = coerce(parameter, value);
    if (typed === undefined) throw fail(`must be ${expectedBy(parameter)}.`);
    if (type === 'string' && Array.isArray(values) && !values.includes(typed))
      throw fail(`must be one of ${values.join(', ')}.`);
    return typed;
  }

  /** A text that the schema does not take may be the JSON text of what it takes. */
  #read(name: string, { type }: JsonSchema, value: unknown): unknown {
    if (typeof value !== 'string' || this.#takes(name, value)) return value;
    let parsed: unknown;
    try {
      parsed = JSON.parse(value);
    } catch {
      return value;
    }
    if (isDeep(parsed)) throw this.#error(name, `${name}: must not be nested deeper than ${MAX_DEPTH} levels.`);
    const isTyped = type === 'array' ? Array.isArray(parsed) : type === 'object' ? isSchema(parsed) : true;
    return isTyped ? parsed : value;
  }

  /** True if the value fits the parameter. Without a check of the schema: if its type says so. */
  #takes(name: string, value: unknown): boolean {
    const parameter = this.#properties[name] ?? {};
    const types = [parameter['type']].flat();
    const own = value === null ? types.includes('null') : types.includes('string') || parameter['type'] === undefined;
    if (this.#isSimple || SCALARS.includes(String(parameter['type']))) return own && value !== null;
    const check = (this.#each ??= compileSchema(eachOf(this.#schema)));
    return typeof check === 'string' ? own : check({ [name]: value }) === undefined;
  }

  #checkAll(values: ReadonlyMap<string, unknown>): void {
    const check = this.#isSimple ? undefined : this.#check();
    if (check === undefined || typeof check === 'string') return;
    const misfit = check(Object.fromEntries(values));
    if (misfit === undefined) return;
    const { path, value, remedy } = misfit;
    const [name = ''] = path;
    const place = path.map((part, i) => (i === 0 ? part : /^\d+$/u.test(part) ? `[${part}]` : `.${part}`)).join('');
    throw this.#error(name, place === '' ? `${this.#tool} ${remedy}` : `${place} ${shown(value)}: ${remedy}`);
  }

  #check(): SchemaCheck | string {
    return (this.#compiled ??= compileSchema(this.#schema));
  }

  #error(parameter: string, message: string): ToolArgumentError {
    return new ToolArgumentError(this.#tool, parameter, message);
  }
}
