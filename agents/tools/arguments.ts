/**
 * Arguments of a tool call, checked against its parameters. A text stays exactly as written. Numbers, booleans and
 * lists may also be given as text, since the text format of tool calls has only texts.
 */

export type ToolParameter =
  | { readonly type: 'string'; readonly description: string; readonly enum?: readonly string[] }
  | { readonly type: 'integer' | 'number' | 'boolean'; readonly description: string }
  | { readonly type: 'array'; readonly description: string; readonly items: { readonly type: 'integer' } };

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

type Value = string | number | boolean | readonly number[];

const SHOWN = 40;

export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}

function fromText(type: ToolParameter['type'], value: unknown): unknown {
  if (typeof value !== 'string' || type === 'string') return value;
  try {
    const parsed: unknown = JSON.parse(value.trim().toLowerCase());
    return parsed;
  } catch {
    return value;
  }
}

/** The value, converted to the parameter's type; `undefined` if it has another type. */
function coerce(parameter: ToolParameter, given: unknown): Value | undefined {
  const value = fromText(parameter.type, given);
  if (parameter.type === 'string') return typeof value === 'string' ? value : undefined;
  if (parameter.type === 'boolean') return typeof value === 'boolean' ? value : undefined;
  if (parameter.type === 'number') return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
  if (parameter.type === 'integer') return Number.isSafeInteger(value) ? Number(value) : undefined;
  const isList = Array.isArray(value) && value.every((item) => Number.isSafeInteger(item));
  return isList ? value.map(Number) : undefined;
}

const expected: Readonly<Record<ToolParameter['type'], string>> = {
  string: 'a text',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  array: 'a list of whole numbers, like [1, 20]',
};

/** Checked arguments, by name and type. */
export class Arguments {
  private readonly tool: string;
  private readonly values: ReadonlyMap<string, Value>;

  constructor(tool: string, values: ReadonlyMap<string, Value>) {
    this.tool = tool;
    this.values = values;
  }

  /** Errors: `ToolArgumentError` if it was not given. */
  text(name: string): string {
    const value = this.optionalText(name);
    if (value === undefined) throw new ToolArgumentError(this.tool, name, `${this.tool} needs the parameter ${name}.`);
    return value;
  }

  optionalText(name: string): string | undefined {
    const value = this.values.get(name);
    return typeof value === 'string' ? value : undefined;
  }

  /** The value of a `number` or `integer` parameter. */
  number(name: string): number | undefined {
    return this.integer(name);
  }

  integer(name: string): number | undefined {
    const value = this.values.get(name);
    return typeof value === 'number' ? value : undefined;
  }

  flag(name: string): boolean {
    return this.values.get(name) === true;
  }

  integers(name: string): readonly number[] | undefined {
    const value = this.values.get(name);
    return typeof value === 'object' ? value : undefined;
  }

  /** The error to throw for a parameter with an invalid value. */
  wrong(name: string, remedy: string): ToolArgumentError {
    return new ToolArgumentError(this.tool, name, `${name} ${shown(this.values.get(name))}: ${remedy}`);
  }
}

/** Errors: `ToolArgumentError` for the first parameter that is unknown, missing or of the wrong type. */
export function readArguments(
  tool: string,
  parameters: ToolParameters,
  required: readonly string[],
  given: Readonly<Record<string, unknown>>,
): Arguments {
  const values = new Map<string, Value>();
  for (const [name, value] of Object.entries(given)) {
    const parameter = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    const fail = (remedy: string): ToolArgumentError =>
      new ToolArgumentError(tool, name, `${name} ${shown(value)}: ${remedy}`);
    if (parameter === undefined)
      throw fail(`${tool} has no such parameter; it has ${Object.keys(parameters).join(', ')}.`);
    if (value === undefined || value === null) continue;
    const typed = coerce(parameter, value);
    if (typed === undefined) throw fail(`must be ${expected[parameter.type]}.`);
    if (parameter.type === 'string' && parameter.enum !== undefined && !parameter.enum.includes(String(typed)))
      throw fail(`must be one of ${parameter.enum.join(', ')}.`);
    values.set(name, typed);
  }
  for (const name of required)
    if (!values.has(name)) throw new ToolArgumentError(tool, name, `${tool} needs the parameter ${name}.`);
  return new Arguments(tool, values);
}
