/** Messages in the shape that chat templates expect: OpenAI's roles, with tool calls as parsed objects. */

import { plainOf, readWritten, WrittenFloat, writtenText } from './written-json.ts';

export interface ToolCall {
  readonly name: string;
  /** Ordinary values, for tools. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The arguments' JSON, where ordinary values do not say how they were written (`12.0`): chat templates print that. */
  readonly written?: string;
}

/** A call whose arguments were read by `readWritten`. */
export function toolCallOf(name: string, given: object): ToolCall {
  const plain = plainOf(given) as Record<string, unknown>;
  const written = writtenText(given);
  return { name, arguments: plain, ...(written === JSON.stringify(plain) ? {} : { written }) };
}

/** A call's arguments as JSON, as they were written. */
export const argumentsText = (call: ToolCall): string => call.written ?? JSON.stringify(call.arguments);

/** Reads a call's arguments as text: an object, or what is wrong with it. */
export function readArguments(text: string): object | string {
  if (text.trim() === '') return {};
  try {
    const value = readWritten(text);
    return isObject(value) ? value : 'not an object';
  } catch (error) {
    return `not JSON: ${(error as Error).message}`;
  }
}

export const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof WrittenFloat);

export type Message =
  | { readonly role: 'system' | 'user'; readonly content: string }
  | { readonly role: 'assistant'; readonly content: string; readonly toolCalls?: readonly ToolCall[] }
  | { readonly role: 'tool'; readonly name: string; readonly content: string };

/** OpenAI's function schema. */
export interface ToolSchema {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: Readonly<Record<string, unknown>>;
  };
}

export type ParsedTurn =
  | { readonly kind: 'calls'; readonly content: string; readonly calls: readonly ToolCall[] }
  | { readonly kind: 'no-call'; readonly content: string }
  | { readonly kind: 'malformed'; readonly content: string; readonly error: string };
