/** Rows of the store as they are read, and the check that each is still what was written. Pure. */

import { crc32 } from 'node:zlib';
import { createHash } from 'node:crypto';
import type { Execution, RolloutEvent } from './store.ts';
import type { ObjectRef } from '../protocol/stages.ts';

export interface ResultRow {
  readonly key: string;
  /** ISO 8601, UTC: when it was written. */
  readonly at: string;
  readonly value: string;
  readonly sum: number;
}

/** Its name is the hash of its bytes, so it needs no further checksum. */
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

/** In a damaged row a value may have another type than its column. */
const isWhole = (...columns: readonly unknown[]): boolean => columns.every((column) => typeof column === 'string');

function sumOf(row: Exclude<CheckedRow, ObjectRow>): number | undefined {
  if ('value' in row) return isWhole(row.key, row.at, row.value) ? recordSum(row.key, row.at, row.value) : undefined;
  if ('key' in row) return isWhole(row.key, row.at) ? checksumOf(row.key, row.at) : undefined;
  return checksumOfAll([row.run, row.rollout, row.attempt, row.event, row.at, row.detail]);
}

/** The damage of a row, in words. `undefined` if it is intact. */
export function damageOf(row: CheckedRow): string | undefined {
  if ('ref' in row)
    return row.bytes instanceof Uint8Array && refOf(row.bytes) === row.ref
      ? undefined
      : 'is not what was written: its bytes do not match its name';
  return row.sum === sumOf(row) ? undefined : 'is not what was written: its checksum differs';
}

/** The key by which a row can be found. */
export function keyOf(row: CheckedRow): string {
  if ('ref' in row) return String(row.ref);
  if ('key' in row) return String(row.key);
  return `${row.rollout}#${row.attempt} ${row.event}`;
}

/** The row's kind and key, as the subject of a sentence. */
export function nameOf(row: CheckedRow): string {
  if ('ref' in row) return `the object ${keyOf(row)}`;
  if ('value' in row) return `the record ${keyOf(row)}`;
  return 'event' in row ? `the event ${row.seq} (${keyOf(row)})` : `the execution ${row.seq} of ${keyOf(row)}`;
}

/** An upper bound of all keys with `prefix`, in byte order. */
export const afterPrefix = (prefix: string): string => `${prefix}\u{10FFFF}`;

/**
 * The checksum of a row: CRC-32 over its key and its value, in UTF-8. It finds changed bytes, and a row under another
 * row's key. It finds every change within 32 consecutive bits; of other changes it misses one in 2^32. No key contains
 * a NUL.
 */
export function checksumOf(key: string, value: string): number {
  return crc32(value, crc32(`${key}\0`));
}

/** The checksum of a record: `checksumOf` over its key, with its time, and its value. */
export function recordSum(key: string, at: string, value: string): number {
  return checksumOf(`${key}\0${at}`, value);
}

/** The checksum of a row without a single key: over all columns. */
export function checksumOfAll(columns: ReadonlyArray<string | number>): number {
  return crc32(columns.join('\0'));
}
