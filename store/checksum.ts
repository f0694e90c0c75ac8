/**
 * The checksum of a row: CRC-32 over its key and its value, so that a row whose bytes changed is found, and one that came
 * under another row's key. It finds every change within 32 bits in a row, and of any other all but one in 2^32.
 */

import { crc32 } from 'node:zlib';

/** Over UTF-8; no key holds a NUL. */
export function checksumOf(key: string, value: string): number {
  return crc32(value, crc32(`${key}\0`));
}

/** Of a row of several columns, none of which is its key alone. */
export function checksumOfAll(columns: ReadonlyArray<string | number>): number {
  return crc32(columns.join('\0'));
}
