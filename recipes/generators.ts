/** What recipes make for `longhaul sft`, by the names that configurations use: examples without end, and tokenizers. */

import type { TokenSequence } from '../trainer/model/token-batch.ts';
import type { Tokenizer } from '../trainer/tokenizer/load-tokenizer.ts';
import { makeStarterTokenizer } from './starter/make-tokenizer.ts';
import { type SequenceKind, SEQUENCE_KINDS, sequenceSource } from './starter/sequences.ts';
import type { TokenizerFiles } from './tokenizer/tokenizer-files.ts';

const STARTER = SEQUENCE_KINDS.map((kind) => `starter/${kind}` as const);
export type GeneratorName = `starter/${SequenceKind}`;

/** Names of `data.NAME.generate`. */
export const GENERATORS: readonly [GeneratorName, ...GeneratorName[]] = ['starter/drills', ...STARTER.slice(1)];

/** Names of `tokenizer.generate`. */
export const TOKENIZER_MAKERS = ['starter'] as const;

/** The sequences of example `n`. Errors: `MissingToken`. */
export function generator(name: GeneratorName, tokenizer: Tokenizer): (n: number) => readonly TokenSequence[] {
  const source = sequenceSource(tokenizer);
  const kind = name.slice('starter/'.length) as SequenceKind;
  return (n) => source(kind, n);
}

/** `size`: the most ids. `texts`: number of texts it is learned from. `maxLength`: the longest context, in tokens. */
export function makeTokenizer(
  _name: (typeof TOKENIZER_MAKERS)[number],
  { size, texts, maxLength }: { readonly size: number; readonly texts: number; readonly maxLength: number },
): TokenizerFiles {
  return makeStarterTokenizer({ size, conversations: texts, maxLength });
}
