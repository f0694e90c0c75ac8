/**
 * From a policy's text to tool calls. A text is a message, one or more calls, or an error that the policy is told;
 * nothing here throws, whatever the text is.
 */

import { isObject, type ToolCall, toolCallOf } from './message.ts';
import { entriesOf, readWritten, type Written } from './written-json.ts';

/** How calls are written: OpenHands' and SkyRL's tags, or Hermes' JSON (Qwen's template). */
export type ToolCallFormat = 'function-xml' | 'hermes-json';

export type ParsedTurn =
  | { readonly kind: 'calls'; readonly content: string; readonly calls: readonly ToolCall[] }
  | { readonly kind: 'no-call'; readonly content: string }
  | { readonly kind: 'malformed'; readonly content: string; readonly error: string };

const FUNCTION = /<function=([^>\n]+)>([\s\S]*?)<\/function>/g;
const PARAMETER = /<parameter=([^>\n]+)>([\s\S]*?)<\/parameter>/g;
const HERMES = /<tool_call>([\s\S]*?)<\/tool_call>/g;

/** The format that a chat template's text asks for. */
export function toolCallFormatOf(chatTemplate: string): ToolCallFormat {
  return chatTemplate.includes('<function=') ? 'function-xml' : 'hermes-json';
}

function parseFunctionXml(text: string): ParsedTurn {
  const first = text.indexOf('<function=');
  if (first < 0) return { kind: 'no-call', content: text };
  const content = text.slice(0, first).trim();
  const calls = [...text.matchAll(FUNCTION)].map(([, name = '', body = '']) => ({
    name: name.trim(),
    arguments: Object.fromEntries(
      [...body.matchAll(PARAMETER)].map(([, key = '', value = '']) => [key.trim(), unwrapLines(value)]),
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
  for (const [, body = ''] of text.matchAll(HERMES)) {
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
