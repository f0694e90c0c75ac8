/**
 * From a policy's text to tool calls. A text is a message, one or more calls, or an error that the policy is told;
 * nothing here throws, whatever the text is.
 */

import { type ParsedTurn, isObject, type ToolCall, toolCallOf } from '../protocol/message.ts';
import { entriesOf, readWritten, type Written } from '../protocol/written-json.ts';

/** How calls are written: OpenHands' and SkyRL's tags, or Hermes' JSON (Qwen's template). */
export type ToolCallFormat = 'function-xml' | 'hermes-json';

interface Section {
  /** Between `open` and the next `>`; of at least one character, and without a line end. */
  readonly name: string;
  readonly body: string;
}

type Find = (from: number) => number;

/** The first place of `part` from each of some places on, which only ever grow: each character is looked at once. */
function finder(text: string, part: string): Find {
  let at = -1;
  return (from) => {
    if (at < from) at = text.indexOf(part, from);
    if (at < 0) at = text.length;
    return at;
  };
}

/** `<NAME=name>body</NAME>`, each up to the first end of its kind, in time that grows with the text and no faster. */
function sectionsOf(text: string, tag: string): Section[] {
  const [open, close] = [`<${tag}=`, `</${tag}>`];
  const [opens, closes, ends, lines] = [open, close, '>', '\n'].map((part) => finder(text, part)) as [
    Find,
    Find,
    Find,
    Find,
  ];
  const found: Section[] = [];
  for (let at = opens(0); at < text.length;) {
    const begin = at + open.length;
    const end = ends(begin);
    const isNamed = end < text.length && end > begin && lines(begin) > end;
    const last = isNamed ? closes(end + 1) : begin;
    if (last === text.length) break;
    if (isNamed) found.push({ name: text.slice(begin, end), body: text.slice(end + 1, last) });
    at = opens(isNamed ? last + close.length : begin);
  }
  return found;
}

/** What stands between `open` and the next `close`, as often as it does. */
function between(text: string, open: string, close: string): string[] {
  const found: string[] = [];
  for (let at = text.indexOf(open); at >= 0;) {
    const end = text.indexOf(close, at + open.length);
    if (end < 0) break;
    found.push(text.slice(at + open.length, end));
    at = text.indexOf(open, end + close.length);
  }
  return found;
}

/** The format that a chat template's text asks for. */
export function toolCallFormatOf(chatTemplate: string): ToolCallFormat {
  return chatTemplate.includes('<function=') ? 'function-xml' : 'hermes-json';
}

function parseFunctionXml(text: string): ParsedTurn {
  const first = text.indexOf('<function=');
  if (first < 0) return { kind: 'no-call', content: text };
  const content = text.slice(0, first).trim();
  const calls = sectionsOf(text, 'function').map(({ name, body }) => ({
    name: name.trim(),
    arguments: Object.fromEntries(
      sectionsOf(body, 'parameter').map((parameter) => [parameter.name.trim(), unwrapLines(parameter.body)]),
    ),
  }));
  if (calls.length === 0) return { kind: 'malformed', content, error: 'The call has no closing </function>.' };
  return { kind: 'calls', content, calls };
}

/** A value on lines of its own loses exactly those two line ends; indentation stays, or `old_str` would never match. */
function unwrapLines(value: string): string {
  return value.startsWith('\n') && value.endsWith('\n') && value.length > 1 ? value.slice(1, -1) : value;
}

function parseHermesJson(text: string): ParsedTurn {
  const first = text.indexOf('<tool_call>');
  if (first < 0) return { kind: 'no-call', content: text };
  const content = text.slice(0, first).trim();
  const calls: ToolCall[] = [];
  for (const body of between(text, '<tool_call>', '</tool_call>')) {
    const call = readHermesCall(body);
    if (typeof call === 'string') return { kind: 'malformed', content, error: call };
    calls.push(call);
  }
  if (calls.length === 0) return { kind: 'malformed', content, error: 'The call has no closing </tool_call>.' };
  return { kind: 'calls', content, calls };
}

function readHermesCall(body: string): ToolCall | string {
  let value: Written;
  try {
    value = readWritten(body);
  } catch (error) {
    return `The call is not JSON: ${(error as Error).message}`;
  }
  const call = isObject(value) ? new Map(entriesOf(value)) : undefined;
  const name = call?.get('name');
  if (typeof name !== 'string') return 'The call has no "name".';
  const given = call?.has('arguments') === true ? call.get('arguments') : {};
  return isObject(given) ? toolCallOf(name, given) : '"arguments" is not an object.';
}

/** Reads every call of one assistant turn; `text` without its end-of-turn token. */
export function parseToolCalls(text: string, format: ToolCallFormat): ParsedTurn {
  return format === 'function-xml' ? parseFunctionXml(text) : parseHermesJson(text);
}
