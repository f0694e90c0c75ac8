/** The printable stand-in of each byte in a byte-level vocabulary (GPT-2's table, which `ByteLevel` uses). */

function isPlain(byte: number): boolean {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

export const BYTE_ALPHABET: readonly string[] = (() => {
  let shifted = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    if (isPlain(byte)) return String.fromCodePoint(byte);
    shifted += 1;
    return String.fromCodePoint(shifted - 1);
  });
})();

/** `text` as UTF-8, each byte by its stand-in. */
export function toAlphabet(text: string): string[] {
  return [...new TextEncoder().encode(text)].map((byte) => BYTE_ALPHABET[byte] ?? '');
}

const byteOf = new Map(BYTE_ALPHABET.map((stand, byte) => [stand, byte]));

/** The bytes that a token of a byte-level vocabulary stands for; `undefined` for other tokens. */
export function bytesOfToken(token: string): number[] | undefined {
  const bytes: number[] = [];
  for (const character of token) {
    const byte = byteOf.get(character);
    if (byte === undefined) return undefined;
    bytes.push(byte);
  }
  return bytes;
}
