/**
 * Every case of SkyRL's own codec. It does not assert ids of calls beyond the first of a message: one message has one
 * call there. The case on which the original crashes is a refused parameter here.
 */

import { describe, expect, it } from 'vitest';
import {
  ConversionRefused,
  messagesToSkyrl,
  openAiCall,
  type OpenAiMessage,
  skyrlCallText,
  skyrlToMessages,
} from '../../../agents/codecs/skyrl-messages.ts';
import { looksTruncated, readSkyrlText } from '../../../agents/codecs/skyrl-text.ts';
import type { ToolSchema } from '../../../protocol/message.ts';
import { readVectors } from '../../support/vectors.ts';

interface Expected {
  readonly name?: string;
  readonly arguments_json?: string;
  readonly id?: string;
  readonly content?: string;
  readonly no_call?: true;
  readonly error_class?: 'validation' | 'conversion';
  readonly error_kind?: string;
  readonly upstream_crash?: string;
  readonly text?: string;
  readonly messages?: readonly OpenAiMessage[];
}

interface Case {
  readonly name: string;
  readonly text: string;
  readonly looks_truncated: boolean;
  readonly tool_call: unknown;
  readonly messages: readonly OpenAiMessage[];
  readonly expected: Expected;
}

const vectors = readVectors<
  Readonly<Record<'parse' | 'call_to_text' | 'messages_to_text' | 'text_to_messages', readonly Case[]>> & {
    readonly tools: readonly ToolSchema[];
  }
>('toolparse.json');

/** Python's JSON has constants that JavaScript's has not. */
const pythonValue = (text: string): unknown =>
  JSON.parse(
    text.replaceAll(/\bNaN\b/gu, '"#NaN"').replaceAll(/\bInfinity\b/gu, '"#Infinity"'),
    (_key, value: unknown) => (typeof value === 'string' && value.startsWith('#') ? Number(value.slice(1)) : value),
  );

const named = (cases: readonly Case[]) => cases.map((one) => [one.name, one] as const);

/** Arguments as values, so that spaces and escapes do not count. */
const withValues = (messages: readonly OpenAiMessage[]) =>
  JSON.parse(JSON.stringify(messages), (key, value: unknown) =>
    key === 'arguments' && typeof value === 'string' ? pythonValue(value) : value,
  ) as unknown;

describe('a text, read as SkyRL reads it', () => {
  it.each(named(vectors.parse))('%s', (_name, { text, looks_truncated: truncated, expected }) => {
    const read = readSkyrlText(text, vectors.tools);
    expect(looksTruncated(text)).toBe(truncated);
    if (expected.no_call) expect(read.kind).toBe('no-call');
    else if (expected.upstream_crash !== undefined) expect(read).toMatchObject({ mistake: 'param_not_allowed' });
    else if (expected.error_kind !== undefined) expect(read).toMatchObject({ mistake: expected.error_kind });
    else {
      expect(read).toMatchObject({ kind: 'call', content: expected.content, call: { name: expected.name } });
      expect(read.kind === 'call' && read.call.arguments).toEqual(pythonValue(expected.arguments_json ?? ''));
      expect(read.kind === 'call' && openAiCall(read.call).id).toBe(expected.id);
    }
  });
});

describe('a call, written as SkyRL writes it', () => {
  it.each(named(vectors.call_to_text))('%s', (_name, { tool_call: call, expected }) => {
    if (expected.error_class === undefined) expect(skyrlCallText(call)).toBe(expected.text);
    else expect(() => skyrlCallText(call)).toThrow(ConversionRefused);
  });
});

describe('messages, written as SkyRL writes them', () => {
  it.each(named(vectors.messages_to_text))('%s', (_name, { messages, expected }) => {
    if (expected.error_class === undefined) expect(messagesToSkyrl(messages)).toEqual(expected.messages);
    else expect(() => messagesToSkyrl(messages)).toThrow(ConversionRefused);
  });
});

describe('messages, read from SkyRL', () => {
  it.each(named(vectors.text_to_messages))('%s', (_name, { messages, expected }) => {
    const read = () => skyrlToMessages(messages, vectors.tools);
    if (expected.error_class === undefined) expect(withValues(read())).toEqual(withValues(expected.messages ?? []));
    else expect(read).toThrow(ConversionRefused);
  });
});
