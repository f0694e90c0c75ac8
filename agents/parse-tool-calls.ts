/**
 * Parses tool calls from a policy's text. The result is a message, one or more calls, or an error for the policy. No
 * text makes it throw.
 */

import { type ParsedTurn, isObject, type ToolCall, toolCallOf } from '../protocol/message.ts';
import { entriesOf, readWritten, type Written } from '../protocol/written-json.ts';

/** The text format of calls: OpenHands' and SkyRL's tags, or Hermes' JSON (Qwen's template). */
export type ToolCallFormat = 'function-xml' | 'hermes-json';

interface Section {
  /** The text between `open` and the next `>`: at least one character, no line end. */
  readonly name: string;
  readonly body: string;
}

type Find = (from: number) => number;

/**
 * Returns a function that finds the first `part` at or after an index. Its indices must not decrease, so each character
 * is read once.
 */
function finder(text: string, part: string): Find {
  let at = -1;
  return (from) => {
    if (at < from) at = text.indexOf(part, from);
    if (at < 0) at = text.length;
    return at;
  };
}

/** All `<TAG=name>body</TAG>`, each up to its first end tag. Takes time linear in the text. */
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

/** Every text between `open` and the next `close`. */
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

/** The format that a chat template uses. */
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

/**
 * Removes the line ends around a value on its own lines, and nothing else: without its indentation `old_str` would
 * never match.
 */
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

/** Parses every call of one assistant turn. `text` has no end-of-turn token. */
export function parseToolCalls(text: string, format: ToolCallFormat): ParsedTurn {
  return format === 'function-xml' ? parseFunctionXml(text) : parseHermesJson(text);
}
