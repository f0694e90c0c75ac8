/**
 * SkyRL's form: `<function=NAME>` with a line end after it, one call a message, values typed by the tool's schema.
 * `readSkyrlText` reads a message as SkyRL's agents do. The codec, by which policies call tools here, differs: a text
 * keeps its white space but for the line ends around it, and an array is a list or an object.
 */

import { argumentsText, readArguments, type ToolCall, toolCallOf, type ToolSchema } from '../../protocol/message.ts';
import { asciiDigits, stripped } from '../../protocol/python-text.ts';
import { entriesOf, readWritten, WrittenFloat, writtenText } from '../../protocol/written-json.ts';
import { type Codec, finder, type Section } from './codec.ts';
import { functionText, unwrapLines } from './function-xml.ts';

const [FUNCTION, END_FUNCTION, PARAMETER, END_PARAMETER] = [
  '<function=',
  '</function>',
  '<parameter=',
  '</parameter>',
] as const;

export type SkyrlMistake =
  | 'unknown_function'
  | 'param_not_allowed'
  | 'param_not_integer'
  | 'param_not_array'
  | 'param_not_in_enum'
  | 'missing_required';

/** A call that breaks its tool's schema. */
class Misfit extends Error {
  readonly mistake: SkyrlMistake;

  constructor(mistake: SkyrlMistake, message: string) {
    super(message);
    this.mistake = mistake;
  }
}

export type SkyrlCall =
  | { readonly kind: 'no-call' }
  /** `content`: the text before the first opening. */
  | { readonly kind: 'call'; readonly content: string; readonly call: ToolCall; readonly end: number }
  | { readonly kind: 'misfit'; readonly mistake: SkyrlMistake; readonly error: string };

type Properties = Readonly<Record<string, { readonly type?: unknown; readonly enum?: unknown }>>;

/** All names and texts of parameters, in order. A name may be any text without `>`. */
function parametersOf(body: string): Array<readonly [string, string]> {
  const [opens, ends, closes] = [PARAMETER, '>', END_PARAMETER].map((part) => finder(body, part)) as [
    (from: number) => number,
    (from: number) => number,
    (from: number) => number,
  ];
  const found: Array<readonly [string, string]> = [];
  for (let at = opens(0); at < body.length;) {
    const begin = at + PARAMETER.length;
    const end = ends(begin);
    const last = end === begin ? begin : closes(end);
    if (last >= body.length) break;
    if (end > begin) found.push([body.slice(begin, end), body.slice(end + 1, last)]);
    at = opens(end > begin ? last + END_PARAMETER.length : begin);
  }
  return found;
}

/** The parameters of a call of an unknown tool. */
const textsIn = (body: string): Record<string, string> =>
  Object.fromEntries(parametersOf(body).map(([name, text]) => [name, unwrapLines(text)]));

const CONSTANT = /(?<![\w.])(?:-?Infinity|(?<!-)NaN)(?![\w.])/uy;

/** Numbers that no text has, which stand for Python's constants while a text is read. */
const STAND_INS: Readonly<Record<string, string>> = {
  NaN: '1e987654321',
  Infinity: '1e987654322',
  '-Infinity': '-1e987654322',
};
const MEANT = new Map(Object.entries(STAND_INS).map(([constant, written]) => [written, Number(constant)]));

/** The text with numbers in the place of Python's constants. Those inside of strings stay. */
function withStandIns(text: string): string {
  const parts: string[] = [];
  let kept = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '"') {
      for (at += 1; at < text.length && text[at] !== '"'; at += 1) if (text[at] === '\\') at += 1;
      continue;
    }
    CONSTANT.lastIndex = at;
    const [constant] = CONSTANT.exec(text) ?? [];
    if (constant === undefined) continue;
    parts.push(text.slice(kept, at), STAND_INS[constant] ?? '');
    kept = at + constant.length;
    at = kept - 1;
  }
  return [...parts, text.slice(kept)].join('');
}

function withConstants(value: unknown): unknown {
  if (value instanceof WrittenFloat) return MEANT.get(value.source) ?? value;
  if (Array.isArray(value)) return value.map(withConstants);
  if (typeof value !== 'object' || value === null) return value;
  const entries = entriesOf(value).map(([name, child]) => [name, withConstants(child)] as const);
  return value instanceof Map ? new Map(entries) : Object.fromEntries(entries);
}

/** JSON as Python reads it: `NaN` and `Infinity` are numbers. Errors: `SyntaxError`. */
export function readPythonJson(text: string): unknown {
  try {
    return readWritten(text);
  } catch (error) {
    const standing = withStandIns(text);
    if (standing === text) throw error;
    return withConstants(readWritten(standing));
  }
}

type Reading = 'skyrl' | 'codec';

function typed(name: string, raw: string, type: unknown, reading: Reading): unknown {
  const text = stripped(raw);
  if (type === 'integer') {
    const digits = asciiDigits(text);
    if (!/^[+-]?\d+(?:_\d+)*$/u.test(digits))
      throw new Misfit('param_not_integer', `${name} ${JSON.stringify(text.slice(0, 40))}: must be an integer.`);
    const value = BigInt(digits.replaceAll('_', '').replace(/^\+/u, ''));
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }
  if (type !== 'array') return reading === 'skyrl' ? text : unwrapLines(raw);
  try {
    const value = readPythonJson(text);
    if (reading === 'skyrl' || (typeof value === 'object' && value !== null)) return value;
  } catch {
    // Reported below, with the form that is needed.
  }
  throw new Misfit('param_not_array', `${name} ${JSON.stringify(text.slice(0, 40))}: must be a JSON array.`);
}

/** The call by its tool's schema. Errors: `Misfit`. */
function fitted(name: string, body: string, tools: readonly ToolSchema[], reading: Reading): ToolCall {
  const tool = tools.find((one) => one.function.name === name)?.function;
  if (tool === undefined) {
    const names = tools.map((one) => one.function.name).join(', ');
    throw new Misfit('unknown_function', `There is no tool ${JSON.stringify(name)}; use ${names}.`);
  }
  const schema = (tool.parameters as ToolSchema['function']['parameters'] | undefined) ?? {};
  const properties = (schema['properties'] ?? {}) as Properties;
  const given = new Map<string, unknown>();
  for (const [parameter, text] of parametersOf(body)) {
    const property = Object.hasOwn(properties, parameter) ? properties[parameter] : undefined;
    if (property === undefined) {
      const known = Object.keys(properties).join(', ') || 'none';
      throw new Misfit('param_not_allowed', `${name} has no parameter ${JSON.stringify(parameter)}; it has ${known}.`);
    }
    const allowed = Array.isArray(property.enum) ? (property.enum as readonly unknown[]) : undefined;
    const value = typed(parameter, text, property.type, allowed === undefined ? reading : 'skyrl');
    if (allowed !== undefined && !allowed.includes(value))
      throw new Misfit(
        'param_not_in_enum',
        `${parameter} ${JSON.stringify(text.slice(0, 40))}: must be one of ${allowed.join(', ')}.`,
      );
    given.set(parameter, value);
  }
  const missing = ((schema['required'] ?? []) as readonly string[]).filter((parameter) => !given.has(parameter));
  if (missing.length > 0) throw new Misfit('missing_required', `${name} needs the parameter ${missing.join(', ')}.`);
  return toolCallOf(name, Object.fromEntries(given));
}

interface Opening {
  readonly name: string;
  readonly body: string;
  readonly end: number;
}

/** Finds the name and the body at an opening. `undefined`: the name has no end, or no line end follows it. */
function openingsIn(text: string): (start: number) => Opening | 'unclosed' | undefined {
  const [ends, closes] = [finder(text, '>'), finder(text, END_FUNCTION)];
  return (start) => {
    const begin = start + FUNCTION.length;
    const end = ends(begin);
    if (end === begin || text[end + 1] !== '\n') return undefined;
    const last = closes(end + 2);
    if (last === text.length) return 'unclosed';
    return { name: text.slice(begin, end), body: text.slice(end + 2, last), end: last + END_FUNCTION.length };
  };
}

/** True if the text has a call and does not end with one: what sampled it may have been cut. */
export const looksTruncated = (text: string): boolean =>
  text.includes(FUNCTION) && !stripped(text).endsWith(END_FUNCTION);

/** The first call of a message, as SkyRL's agents read it. */
export function readSkyrlText(text: string, tools: readonly ToolSchema[]): SkyrlCall {
  const [opens, openingAt] = [finder(text, FUNCTION), openingsIn(text)];
  for (let at = opens(0); at < text.length; at = opens(at + FUNCTION.length)) {
    const opening = openingAt(at);
    if (opening === 'unclosed') break;
    if (opening === undefined) continue;
    try {
      const call = fitted(opening.name, opening.body, tools, 'skyrl');
      return { kind: 'call', content: stripped(text.slice(0, text.indexOf(FUNCTION))), call, end: opening.end };
    } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      return { kind: 'misfit', mistake: error.mistake, error: error.message };
    }
  }
  return { kind: 'no-call' };
}

/** Lists and numbers as JSON, so that what is written can be read again. */
function valuesOf(call: ToolCall): Array<[string, string]> {
  const given = readArguments(argumentsText(call));
  return entriesOf(typeof given === 'string' ? call.arguments : given).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : writtenText(value),
  ]);
}

export const skyrlText: Codec = {
  name: 'skyrl-text',
  marks: [FUNCTION],
  form: '<function=NAME>\n<parameter=P>value</parameter>\n</function>',
  opening: (name) => `${FUNCTION}${name === undefined ? '' : `${name}>\n`}`,
  several: false,
  reader(text, tools) {
    const openingAt = openingsIn(text);
    return {
      next: finder(text, FUNCTION),
      read(start): Section {
        const opening = openingAt(start);
        if (opening === 'unclosed') return { kind: 'unclosed', error: `The call has no closing ${END_FUNCTION}.` };
        if (opening === undefined)
          return { kind: 'text', end: start + FUNCTION.length, error: 'The call has no line end after its name.' };
        const { name, body, end } = opening;
        try {
          return { kind: 'call', end, call: fitted(name, body, tools, 'codec') };
        } catch (error) {
          if (!(error instanceof Misfit)) throw error;
          // The tools' own answer to an unknown name lists what there is.
          return error.mistake === 'unknown_function'
            ? { kind: 'call', end, call: { name, arguments: textsIn(body) } }
            : { kind: 'mistake', error: error.message };
        }
      },
    };
  },
  callText: (call) => functionText('skyrl-text', call, valuesOf(call)),
  answerText: (tool, content) => `EXECUTION RESULT of [${tool}]:\n${content}`,
};
