/** `<function=NAME>` around `<parameter=P>`: OpenHands' form. Values are texts; the tools' schemas give them types. */

import type { ToolCall } from '../../protocol/message.ts';
import { argumentsText, readArguments } from '../../protocol/message.ts';
import { entriesOf, writtenText } from '../../protocol/written-json.ts';
import { type Codec, finder, NotWritable, type Section } from './codec.ts';

const [FUNCTION, END_FUNCTION, PARAMETER, END_PARAMETER] = [
  '<function=',
  '</function>',
  '<parameter=',
  '</parameter>',
] as const;

/**
 * Removes the line ends around a value on its own lines, and nothing else: without its indentation `old_str` would
 * never match.
 */
export function unwrapLines(value: string): string {
  return value.startsWith('\n') && value.endsWith('\n') && value.length > 1 ? value.slice(1, -1) : value;
}

interface Finders {
  readonly ends: (from: number) => number;
  readonly lines: (from: number) => number;
  readonly closes: (from: number) => number;
}

interface Tagged {
  /** The text between the tag and the next `>`: at least one character, no line end. */
  readonly name: string;
  readonly body: string;
  readonly end: number;
}

const findersOf = (text: string, close: string): Finders => ({
  ends: finder(text, '>'),
  lines: finder(text, '\n'),
  closes: finder(text, close),
});

/** What `<TAG=` at `start` begins, up to its first end tag. `undefined`: it has no name. */
function taggedAt(
  text: string,
  start: number,
  { open, close }: { readonly open: string; readonly close: string },
  { ends, lines, closes }: Finders,
): Tagged | 'unclosed' | undefined {
  const begin = start + open.length;
  const end = ends(begin);
  if (end === text.length || end === begin || lines(begin) < end) return undefined;
  const last = closes(end + 1);
  if (last === text.length) return 'unclosed';
  return { name: text.slice(begin, end), body: text.slice(end + 1, last), end: last + close.length };
}

/** The parameters of a call's body, by name. */
function parametersOf(body: string): Record<string, string> {
  const [opens, finders] = [finder(body, PARAMETER), findersOf(body, END_PARAMETER)];
  const found = new Map<string, string>();
  for (let at = opens(0); at < body.length;) {
    const tagged = taggedAt(body, at, { open: PARAMETER, close: END_PARAMETER }, finders);
    if (tagged === 'unclosed') break;
    if (tagged !== undefined) found.set(tagged.name.trim(), unwrapLines(tagged.body));
    at = opens(tagged?.end ?? at + PARAMETER.length);
  }
  return Object.fromEntries(found);
}

/** The arguments as texts: a text as it is, other values as the JSON that was written. */
function textsOf(call: ToolCall): Array<[string, string]> {
  const given = readArguments(argumentsText(call));
  return entriesOf(typeof given === 'string' ? call.arguments : given).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : writtenText(value),
  ]);
}

/** A value with line ends is on lines of its own, so that its own first and last line ends stay. */
const wrapped = (value: string): string => (value.includes('\n') ? `\n${value}\n` : value);

/** `name`: of the codec, for its errors. Errors: `NotWritable`. */
export function functionText(name: string, call: ToolCall, values: ReadonlyArray<readonly [string, string]>): string {
  const [wrongName] = [call.name, ...values.map(([key]) => key)].filter((one) => /[>\n]/u.test(one));
  if (wrongName !== undefined) throw new NotWritable(name, 'name', wrongName);
  for (const [, value] of values)
    if (value.includes(END_PARAMETER) || value.includes(END_FUNCTION)) throw new NotWritable(name, 'value', value);
  const lines = values.map(([key, value]) => `${PARAMETER}${key}>${wrapped(value)}${END_PARAMETER}\n`);
  return `${FUNCTION}${call.name}>\n${lines.join('')}${END_FUNCTION}`;
}

export const functionXml: Codec = {
  name: 'function-xml',
  marks: [FUNCTION],
  form: '<function=NAME>\n<parameter=P>value</parameter>\n</function>',
  opening: (name) => `${FUNCTION}${name === undefined ? '' : `${name}>\n`}`,
  several: true,
  reader(text) {
    const finders = findersOf(text, END_FUNCTION);
    const unclosed: Section = { kind: 'unclosed', error: `The call has no closing ${END_FUNCTION}.` };
    const opens = finder(text, FUNCTION);
    return {
      next: opens,
      read(start): Section {
        const tagged = taggedAt(text, start, { open: FUNCTION, close: END_FUNCTION }, finders);
        if (tagged === 'unclosed') return unclosed;
        if (tagged !== undefined) {
          const call = { name: tagged.name.trim(), arguments: parametersOf(tagged.body) };
          return { kind: 'call', end: tagged.end, call };
        }
        return { kind: 'text', end: start + FUNCTION.length, error: unclosed.error };
      },
    };
  },
  callText: (call) => functionText('function-xml', call, textsOf(call)),
  answerText: (tool, content) => `EXECUTION RESULT of [${tool}]:\n${content}`,
};
