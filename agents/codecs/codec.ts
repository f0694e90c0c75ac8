/**
 * A codec reads tool calls from a policy's text and writes them as text. No text makes it throw, and reading takes time
 * linear in the text. A call inside of reasoning is never returned.
 */

import type { TextCodecName } from '../../protocol/conversation.ts';
import type { ParsedTurn, ToolCall, ToolSchema } from '../../protocol/message.ts';

/**
 * What starts at an opening: a call, a mistake, or text that only looks like an opening (with `error`, a mistake too).
 */
export type Section =
  | { readonly kind: 'call'; readonly end: number; readonly call: ToolCall }
  | { readonly kind: 'mistake'; readonly error: string }
  /** The text ends before the call does. It counts as a mistake if the message has no other call. */
  | { readonly kind: 'unclosed'; readonly error: string }
  | { readonly kind: 'text'; readonly end: number; readonly error?: string };

/** Reads the calls of one text, from left to right. */
export interface CallReader {
  /** Index of the first opening at or after `from`; the text's length if there is none. `from` never decreases. */
  next(from: number): number;
  /** Reads what starts at an opening that `next` returned. */
  read(start: number): Section;
}

export interface Codec {
  readonly name: TextCodecName;
  /** Texts with which a call can start. */
  readonly marks: readonly string[];
  /** A call as the policy should write it, for hints and preambles. */
  readonly form: string;
  /** How a call begins, up to a place where a policy's own tokens continue. `name`: of its tool, if it is known. */
  opening(name?: string): string;
  /** False if only the first call of a message counts. */
  readonly several: boolean;
  /** `tools`: those that the policy may call. Codecs whose values have no types take the types from there. */
  reader(text: string, tools: readonly ToolSchema[]): CallReader;
  /** Errors: `NotWritable` for a call that this form cannot express. */
  callText(call: ToolCall): string;
  /** A tool's answer, for templates that have no role for it. */
  answerText(tool: string, content: string): string;
}

/** The call has a text that its form would read as something else. */
export class NotWritable extends Error {
  override readonly name = 'NotWritable';

  constructor(codec: string, part: string, value: string) {
    super(`${codec} cannot write the ${part} ${JSON.stringify(value.slice(0, 80))}: it contains a tag of the form`);
  }
}

/**
 * Returns a function that finds the first `part` at or after an index. Its indices must not decrease, so each character
 * is read once.
 */
export function finder(text: string, part: string): (from: number) => number {
  let at = -1;
  return (from) => {
    if (at < from) at = text.indexOf(part, from);
    if (at < 0) at = text.length;
    return at;
  };
}

/** The index after the JSON object or array that starts at `start`; `undefined` if the text ends before. */
export function endOfJson(text: string, start: number): number | undefined {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') {
      for (at += 1; at < text.length && text[at] !== '"'; at += 1) if (text[at] === '\\') at += 1;
    } else if (character === '{' || character === '[') depth += 1;
    else if (character === '}' || character === ']') {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return undefined;
}

const [OPEN, CLOSE] = ['<think>', '</think>'] as const;

export interface TurnContext {
  readonly tools?: readonly ToolSchema[];
  /** True if the prompt ended with `<think>`, so that the text begins inside of reasoning. */
  readonly inReasoning?: boolean;
}

/** True if the template's prompt opens the reasoning: Qwen's and DeepSeek's thinking templates do. */
export const opensReasoning = (prompt: string): boolean => prompt.trimEnd().endsWith(OPEN);

/** A walk over a text, past its reasoning, from call to call. */
class TurnWalk {
  readonly #text: string;
  readonly #reader: CallReader;
  readonly #several: boolean;
  readonly #opens: (from: number) => number;
  readonly #closes: (from: number) => number;
  #at = 0;
  calls: ToolCall[] = [];
  /** Where the first call ends. */
  firstEnd = 0;
  /** Where the first opening is. The text before it is the message. */
  first: number | undefined;
  error: string | undefined;
  /** Where the last reasoning ended. */
  afterReasoning = 0;

  constructor(text: string, codec: Codec, { tools = [], inReasoning = false }: TurnContext) {
    this.#text = text;
    this.#reader = codec.reader(text, tools);
    this.#several = codec.several;
    [this.#opens, this.#closes] = [finder(text, OPEN), finder(text, CLOSE)];
    if (inReasoning) this.#skipReasoning(0);
    while (this.#step());
  }

  /** False after the last step. */
  #step(): boolean {
    const isFull = this.calls.length > 0 && !this.#several;
    const start = isFull ? this.#text.length : this.#reader.next(this.#at);
    const [open, close] = [this.#opens(this.#at), this.#closes(this.#at)];
    if (close < open && close < start) return this.#leaveReasoning(close);
    if (open < start) return this.#skipReasoning(open);
    return start < this.#text.length && this.#read(start);
  }

  /** An end without a beginning: everything before it was reasoning, whatever looked like calls. */
  #leaveReasoning(close: number): true {
    this.calls = [];
    this.first = undefined;
    this.error = undefined;
    this.#at = this.afterReasoning = close + CLOSE.length;
    return true;
  }

  #skipReasoning(from: number): boolean {
    const close = this.#closes(from);
    if (close < this.#text.length) {
      this.#at = this.afterReasoning = close + CLOSE.length;
      return true;
    }
    if (this.calls.length === 0) this.error = `The reasoning has no closing ${CLOSE}.`;
    this.#at = this.afterReasoning = this.#text.length;
    return false;
  }

  #read(start: number): boolean {
    this.first ??= start;
    const section = this.#reader.read(start);
    switch (section.kind) {
      case 'call':
        if (this.calls.length === 0) this.firstEnd = section.end;
        this.calls.push(section.call);
        this.error = undefined;
        this.#at = section.end;
        return true;
      case 'text':
        if (this.calls.length === 0) this.error = section.error;
        this.#at = section.end;
        return true;
      case 'unclosed':
        // If reasoning ends in the rest, the calls before it were part of it.
        if (this.#closes(start) < this.#opens(start)) this.calls = [];
        if (this.calls.length === 0) this.error = section.error;
        return false;
      case 'mistake':
        this.calls = [];
        this.error = section.error;
        return false;
    }
  }
}

/** Parses every call of one assistant turn. `text` has no end-of-turn token. */
export function parseTurn(text: string, codec: Codec, context: TurnContext = {}): ParsedTurn {
  const { calls, first = text.length, error } = new TurnWalk(text, codec, context);
  const content = text.slice(0, first).trim();
  if (calls.length > 0) return { kind: 'calls', content, calls };
  if (error !== undefined) return { kind: 'malformed', content, error };
  return { kind: 'no-call', content: text };
}

/** The index after the first call of a text that may still grow; `undefined` if it has no whole call yet. */
export function endOfFirstCall(text: string, codec: Codec, context: TurnContext = {}): number | undefined {
  const { calls, firstEnd } = new TurnWalk(text, codec, context);
  return calls.length > 0 ? firstEnd : undefined;
}

/** The text without its reasoning. `<think>` in the arguments of a call stays. */
export function withoutReasoning(text: string, codec: Codec, context: TurnContext = {}): string {
  const { afterReasoning } = new TurnWalk(text, codec, context);
  return afterReasoning === 0 ? text : text.slice(afterReasoning).trimStart();
}
