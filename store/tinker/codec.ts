/**
 * Operations and results as bytes, and their checksums. What is read has the values and types of what was written, NaN
 * and infinities included, and each array has a buffer of its own.
 */

import { deserialize, serialize } from 'node:v8';
import { crc32 } from 'node:zlib';

export function encode(value: unknown): Uint8Array {
  return serialize(value);
}

/**
 * V8's arrays are views of the one buffer that was read. A message between threads would copy all of it for each view,
 * and a transfer would empty the others.
 */
function withOwnBuffers(value: unknown): unknown {
  if (value instanceof Int32Array || value instanceof Float32Array || value instanceof Uint8Array)
    return value.byteLength === value.buffer.byteLength ? value : value.slice();
  if (Array.isArray(value)) return value.map(withOwnBuffers);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, own]) => [key, withOwnBuffers(own)]));
}

export function decode<T>(bytes: Uint8Array): T {
  return withOwnBuffers(deserialize(bytes)) as T;
}

/** CRC-32 over the columns that find a row, and its body. */
export function sumOf(columns: ReadonlyArray<string | number>, body: Uint8Array | string): number {
  return crc32(body, crc32(`${columns.join('\0')}\0`));
}
