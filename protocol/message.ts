/** Messages in the form that chat templates expect: OpenAI's roles, with tool calls as parsed objects. */

import type { ImageRef } from './image.ts';
import { plainOf, readWritten, WrittenFloat, writtenText } from './written-json.ts';

export interface ToolCall {
  readonly name: string;
  /** Plain JavaScript values, for tools. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The arguments' JSON text, if plain values lose how it was written (`12.0`). Chat templates print this text. */
  readonly written?: string;
}

/** A call from arguments that `readWritten` returned. */
export function toolCallOf(name: string, given: object): ToolCall {
  const plain = plainOf(given) as Record<string, unknown>;
  const written = writtenText(given);
  return { name, arguments: plain, ...(written === JSON.stringify(plain) ? {} : { written }) };
}

/** A call's arguments as the JSON text that was written. */
export const argumentsText = (call: ToolCall): string => call.written ?? JSON.stringify(call.arguments);

/** Parses the text of a call's arguments. Returns an object, or the reason why it is none. */
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
  | {
      readonly role: 'system' | 'user';
      readonly content: string;
      /** True: the policy reads it before its next turn alone. Later prompts are without it. */
      readonly ephemeral?: true;
    }
  | { readonly role: 'assistant'; readonly content: string; readonly toolCalls?: readonly ToolCall[] }
  | {
      readonly role: 'tool';
      readonly name: string;
      /** Says what the images show, for policies that take none. */
      readonly content: string;
      /** Absent: there are none. */
      readonly images?: readonly ImageRef[];
    };

/** The messages that later prompts have, too. */
export const lasting = (messages: readonly Message[]): readonly Message[] =>
  messages.filter((message) => !('ephemeral' in message));

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
