/**
 * Reads a policy's text as an assistant's turn: reasoning, text, calls. While the text grows, only what later text
 * cannot change is given: the pieces, put together, are the parts of the whole turn.
 */

import { argumentsText } from '../../protocol/message.ts';
import { type Codec, parseTurn } from '../../agents/codecs/codec.ts';
import type { ChatDelta } from './chat.ts';
import { tellable } from './text-stream.ts';

export interface TurnForm {
  readonly codec: Codec;
  /** True if the policy may call tools. Then spaces around the text are removed. */
  readonly hasTools: boolean;
  /** True if the prompt has opened the reasoning. */
  readonly inReasoning: boolean;
  /** `text`: the reasoning stays in the text, with its tags. */
  readonly reasoning: 'separate' | 'text';
  /** Stop strings, which may have begun at the text's end. */
  readonly stops: readonly string[];
  /** The beginning of a call that the prompt ends with. */
  readonly opening: string;
  /** A new call's id, without a prefix. `index`: of the call in the turn. */
  readonly callId: (index: number) => string;
}

export interface Turn {
  readonly reasoning: string;
  readonly content: string;
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: string }>;
}

const [OPEN, CLOSE] = ['<think>', '</think>'] as const;

interface Split {
  readonly reasoning: string;
  /** `undefined`: the reasoning, or the text that may become its tag, has not ended. */
  readonly rest: string | undefined;
}

/** A text's reasoning at its beginning, and what follows. */
function split(text: string, inReasoning: boolean, isWhole: boolean): Split {
  const begun = text.trimStart();
  if (!inReasoning && !begun.startsWith(OPEN)) {
    const mayBegin = !isWhole && OPEN.startsWith(begun);
    return { reasoning: '', rest: mayBegin ? undefined : text };
  }
  const inside = begun.startsWith(OPEN) ? begun.slice(OPEN.length) : text;
  const close = inside.indexOf(CLOSE);
  if (close < 0) return { reasoning: inside, rest: isWhole ? '' : undefined };
  return { reasoning: inside.slice(0, close), rest: inside.slice(close + CLOSE.length).trimStart() };
}

export class TurnReader {
  readonly #form: TurnForm;
  #reasoning = '';
  #content = '';

  constructor(form: TurnForm) {
    this.#form = form;
  }

  /** What is new in the text so far. */
  grow(text: string): ChatDelta[] {
    const { codec, hasTools, inReasoning, opening, stops } = this.#form;
    if (opening !== '') return [];
    const marks = hasTools ? [...stops, ...codec.marks] : stops;
    const shown = (content: string) => (hasTools ? tellable(content, marks).trim() : tellable(content, marks));
    if (this.#form.reasoning === 'text') return this.#newIn('', shown(text));
    const { reasoning, rest } = split(text, inReasoning, false);
    const thought = rest === undefined ? tellable(reasoning, [...stops, CLOSE]) : reasoning;
    return this.#newIn(thought.trim(), rest === undefined ? '' : shown(rest));
  }

  /** The whole turn, and what of it was not given before. `isComplete`: false if the text was cut at a length. */
  end(text: string, isComplete: boolean): { readonly turn: Turn; readonly deltas: readonly ChatDelta[] } {
    const turn = this.#turnOf(`${this.#form.opening}${text}`, isComplete);
    const calls = turn.calls.map((call): ChatDelta => ({ kind: 'call', call }));
    return { turn, deltas: [...this.#newIn(turn.reasoning, turn.content), ...calls] };
  }

  #turnOf(text: string, isComplete: boolean): Turn {
    const { codec, hasTools, inReasoning, callId } = this.#form;
    const parsed = hasTools && isComplete ? parseTurn(text, codec, { inReasoning }) : undefined;
    const calls = (parsed?.kind === 'calls' ? parsed.calls : []).map((call, index) => ({
      id: callId(index),
      name: call.name,
      arguments: argumentsText(call),
    }));
    const said = parsed?.kind === 'calls' ? parsed.content : text;
    const { reasoning, rest = '' } =
      this.#form.reasoning === 'separate' ? split(said, inReasoning, true) : { reasoning: '', rest: said };
    return { reasoning: reasoning.trim(), content: hasTools ? rest.trim() : rest, calls };
  }

  /**
   * A part that does not continue what was given is not given again: text before a call may turn out to be reasoning.
   */
  #newIn(reasoning: string, content: string): ChatDelta[] {
    const deltas: ChatDelta[] = [];
    if (reasoning.length > this.#reasoning.length) {
      deltas.push({ kind: 'reasoning', text: reasoning.slice(this.#reasoning.length) });
      this.#reasoning = reasoning;
    }
    if (content.length > this.#content.length) {
      deltas.push({ kind: 'text', text: content.slice(this.#content.length) });
      this.#content = content;
    }
    return deltas;
  }
}
