/** The assistant's tokens: those that a template's `{% generation %}` blocks wrote, in part or whole. */

import { bytesOfToken } from './byte-alphabet.ts';

/** Characters `[begin, end)` of a rendered text (UTF-16 units). */
export interface TextSpan {
  readonly begin: number;
  readonly end: number;
}

/** The tokens cannot be matched with the text, so that no mask can be made. */
export class NoAssistantMask extends Error {
  override readonly name = 'NoAssistantMask';
}

/** They mark where a block begins and ends. They are noncharacters, which do not occur in texts. */
const marks = { begin: '\uFDD0', end: '\uFDD1' } as const;

/** The template with a mark where each generation block begins and ends; the tags' own whitespace control is kept. */
export function markGeneration(source: string): string {
  return source.replace(
    /{%(-?)\s*(end)?generation\s*(-?)%}/g,
    (_, left: string, end: string | undefined, right: string) => {
      const mark = end === undefined ? marks.begin : marks.end;
      return `{%${left} if true %}{{ '${mark}' }}{% endif ${right}%}`;
    },
  );
}

/** Removes the marks; returns the text and the spans between them. */
export function takeSpans(marked: string): { readonly text: string; readonly spans: readonly TextSpan[] } {
  const spans: TextSpan[] = [];
  let [text, begin] = ['', 0];
  for (const piece of marked.split(/([\uFDD0\uFDD1])/)) {
    if (piece === marks.begin) begin = text.length;
    else if (piece === marks.end) spans.push({ begin, end: text.length });
    else text += piece;
  }
  return { text, spans };
}

/** The parts of a tokenizer that a mask needs: its tokens' texts, and which are added tokens, whose texts are plain. */
export interface TokenTexts {
  readonly textOf: (id: number) => string | undefined;
  readonly isAdded: (id: number) => boolean;
}

function byteLengthOf(id: number, { textOf, isAdded }: TokenTexts): number {
  const token = textOf(id);
  const length = token === undefined || isAdded(id) ? undefined : bytesOfToken(token)?.length;
  if (length !== undefined) return length;
  if (token === undefined || !isAdded(id)) throw new NoAssistantMask(`token ${id} is not in a byte-level vocabulary`);
  return Buffer.byteLength(token);
}

/** 1 for each of `ids` (the encoding of `text` alone) that overlaps a span, else 0. Errors: `NoAssistantMask`. */
export function assistantMask(
  text: string,
  spans: readonly TextSpan[],
  ids: readonly number[],
  texts: TokenTexts,
): number[] {
  // Tokenizers that normalise a text use NFC.
  const bytesBefore = (at: number): number => Buffer.byteLength(text.slice(0, at).normalize('NFC'));
  const inBytes = spans
    .filter(({ begin, end }) => begin < end)
    .map(({ begin, end }) => [bytesBefore(begin), bytesBefore(end)] as const);
  const mask: number[] = [];
  let at = 0;
  for (const id of ids) {
    const after = at + byteLengthOf(id, texts);
    mask.push(inBytes.some(([begin, end]) => begin < after && at < end) ? 1 : 0);
    at = after;
  }
  if (at !== bytesBefore(text.length))
    throw new NoAssistantMask(`the tokens are ${at} bytes long, the text ${bytesBefore(text.length)}`);
  return mask;
}
