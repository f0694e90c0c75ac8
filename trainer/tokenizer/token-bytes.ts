/**
 * The bytes of single tokens: those of the tokens of a text are together its UTF-8, also where a character is split
 * among tokens.
 */

import { bytesOfToken } from './byte-alphabet.ts';

/** The parts of a tokenizer that say what bytes a token has. */
export interface TokenSource {
  /** `decoder` of `tokenizer.json`. */
  readonly decoder: unknown;
  /** The vocabulary's entry; `undefined`: there is none. */
  readonly textOf: (id: number) => string | undefined;
  /** Added tokens' texts are plain. */
  readonly isAdded: (id: number) => boolean;
  readonly decode: (ids: readonly number[]) => string;
}

type Json = Readonly<Record<string, unknown>>;

/** Types of a decoder and of the decoders that it is a sequence of. */
function typesOf(decoder: unknown): unknown[] {
  if (typeof decoder !== 'object' || decoder === null) return [];
  const { type, decoders } = decoder as Json;
  return [type, ...(Array.isArray(decoders) ? decoders.flatMap(typesOf) : [])];
}

/** Returns the bytes of a token by its id. An id without a token has none. */
export function tokenBytes({ decoder, textOf, isAdded, decode }: TokenSource): (id: number) => readonly number[] {
  const types = new Set(typesOf(decoder));
  const utf8 = (text: string) => [...Buffer.from(text)];
  return (id) => {
    const token = textOf(id);
    if (token === undefined) return [];
    if (isAdded(id)) return utf8(token);
    if (types.has('ByteLevel')) return bytesOfToken(token) ?? utf8(token);
    const byte = types.has('ByteFallback') ? /^<0x([0-9A-F]{2})>$/iu.exec(token)?.[1] : undefined;
    if (byte !== undefined) return [Number.parseInt(byte, 16)];
    // After another token: some decoders leave out the space at the start of a text.
    return utf8(decode([id, id]).slice(decode([id]).length));
  };
}
