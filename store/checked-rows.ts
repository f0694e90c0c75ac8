/** Rows of the store as they are read, and whether each is still what was written. Pure. */

import { crc32 } from 'node:zlib';
import { createHash } from 'node:crypto';
import type { Execution, RolloutEvent } from './store.ts';
import type { ObjectRef } from '../protocol/stages.ts';

export interface ResultRow {
  readonly key: string;
  readonly value: string;
  readonly sum: number;
}

/** Named by its bytes: it needs no further checksum. */
export interface ObjectRow {
  readonly ref: ObjectRef;
  readonly bytes: Uint8Array;
}

export interface EventRow extends Required<RolloutEvent> {
  readonly seq: number;
  readonly sum: number;
}

export interface ExecutionRow extends Execution {
  readonly sum: number;
}

export type CheckedRow = ResultRow | ObjectRow | EventRow | ExecutionRow;

export function refOf(bytes: Uint8Array): ObjectRef {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

/** What is damaged may be of another type than its column. */
const isWhole = (...columns: readonly unknown[]): boolean => columns.every((column) => typeof column === 'string');

function sumOf(row: Exclude<CheckedRow, ObjectRow>): number | undefined {
  if ('value' in row) return isWhole(row.key, row.value) ? checksumOf(row.key, row.value) : undefined;
  if ('key' in row) return isWhole(row.key, row.at) ? checksumOf(row.key, row.at) : undefined;
  return checksumOfAll([row.run, row.rollout, row.attempt, row.event, row.at, row.detail]);
}

/** What is wrong with it, in words; `undefined`: nothing. */
export function damageOf(row: CheckedRow): string | undefined {
  if ('ref' in row)
    return row.bytes instanceof Uint8Array && refOf(row.bytes) === row.ref
      ? undefined
      : 'has other bytes than its name says';
  return row.sum === sumOf(row) ? undefined : 'is not what was written: its checksum differs';
}

/** What names it to whoever looks for it. */
export function keyOf(row: CheckedRow): string {
  if ('ref' in row) return String(row.ref);
  if ('key' in row) return String(row.key);
  return `${row.rollout}#${row.attempt} ${row.event}`;
}

/** The same in a sentence. */
export function nameOf(row: CheckedRow): string {
  if ('ref' in row) return `the object ${keyOf(row)}`;
  if ('value' in row) return `the record ${keyOf(row)}`;
  return 'event' in row ? `the event ${row.seq} (${keyOf(row)})` : `the execution ${row.seq} of ${keyOf(row)}`;
}

/** The first key after every key that begins with `prefix`, in byte order. */
export const afterPrefix = (prefix: string): string => `${prefix}\u{10FFFF}`;

/**
 * The checksum of a row: CRC-32 over its key and its value, so that a row whose bytes changed is found, and one that came
 * under another row's key. It finds every change within 32 bits in a row, and of any other all but one in 2^32.
 *
 * Over UTF-8; no key holds a NUL.
 */
export function checksumOf(key: string, value: string): number {
  return crc32(value, crc32(`${key}\0`));
}

/** Of a row of several columns, none of which is its key alone. */
export function checksumOfAll(columns: ReadonlyArray<string | number>): number {
  return crc32(columns.join('\0'));
}
