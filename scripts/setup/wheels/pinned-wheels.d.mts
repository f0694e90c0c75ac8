export interface Pin {
  readonly line: string;
  readonly name: string;
  readonly hashes: readonly string[];
}
export class HashMismatch extends Error {
  constructor(what: string, remedy: string);
}
export function readPins(file: string): Pin[];
export function withPinnedWheel<T>(
  pin: Pin,
  downloads: string,
  flags: readonly string[],
  use: (path: string, hash: string) => Promise<T>,
): Promise<T>;
export function asMismatch(error: unknown, what: string): unknown;
