/**
 * Reading and writing messages of the package `tinker_public` by field number. Unknown fields are skipped; bytes that
 * are no message throw `UserInputError`.
 */

import protobuf from 'protobufjs/minimal.js';
import { UserInputError } from '../../../protocol/user-input-error.ts';

export type Reader = protobuf.Reader;
export type Writer = protobuf.Writer;

export const WIRE_TYPE = { varint: 0, double: 1, bytes: 2 } as const;

/** A field with its wire type, as it stands before each value. */
export const tagOf = (field: number, type: keyof typeof WIRE_TYPE): number => (field << 3) | WIRE_TYPE[type];

/** By tag: what reads the value. */
export type Fields = ReadonlyMap<number, (reader: Reader) => void>;

export const fields = (
  ...list: ReadonlyArray<readonly [number, keyof typeof WIRE_TYPE, (reader: Reader) => void]>
): Fields => new Map(list.map(([field, type, read]) => [tagOf(field, type), read]));

/** Reads a message of `length` bytes. Errors: `RangeError` or `Error` of protobufjs if the bytes end early. */
export function readFields(reader: Reader, length: number, known: Fields): void {
  const end = reader.pos + length;
  if (end > reader.len) throw new RangeError('a message is longer than what holds it');
  while (reader.pos < end) {
    const tag = reader.uint32();
    const read = known.get(tag);
    if (read === undefined) reader.skipType(tag & 7);
    else read(reader);
  }
  if (reader.pos !== end) throw new RangeError('a field is longer than its message');
}

/** An embedded message. */
export const embedded =
  (known: () => Fields) =>
  (reader: Reader): void =>
    readFields(reader, reader.uint32(), known());

/** Reads one whole message. Errors: `UserInputError`, also for what `read` throws that is not one. */
export function readMessage<T>(name: string, bytes: Uint8Array, read: (reader: Reader) => T): T {
  try {
    return read(protobuf.Reader.create(bytes));
  } catch (error) {
    if (error instanceof UserInputError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new UserInputError('body', `${bytes.length} bytes`, `send the protobuf message ${name} (${why})`, {
      cause: error,
    });
  }
}

/** Reads an entry of a `map<string, V>`. */
export function readEntry<T>(reader: Reader, value: (take: (value: T) => void) => Fields): [string, T | undefined] {
  let key = '';
  let got: T | undefined;
  const rest = value((taken) => {
    got = taken;
  });
  readFields(reader, reader.uint32(), new Map([...rest, [tagOf(1, 'bytes'), (r) => (key = r.string())]]));
  return [key, got];
}

/** `repeated int64`, packed or not. */
export function readInt64s(field: number, into: number[]): Array<readonly [number, (reader: Reader) => void]> {
  return [
    [tagOf(field, 'varint'), (r) => void into.push(int64(r))],
    [
      tagOf(field, 'bytes'),
      (r) => {
        const end = r.uint32() + r.pos;
        while (r.pos < end) into.push(int64(r));
      },
    ],
  ];
}

/** As a number; beyond 2^53 it is not exact. */
export function int64(reader: Reader): number {
  const value: unknown = reader.int64();
  return Number(String(value));
}

export const newWriter = (): Writer => protobuf.Writer.create();

/** Writes an embedded message under `field`. */
export function writeMessage(writer: Writer, field: number, write: (writer: Writer) => void): void {
  writer.uint32(tagOf(field, 'bytes')).fork();
  write(writer);
  writer.ldelim();
}

export function writeInt64s(writer: Writer, field: number, values: readonly number[]): void {
  if (values.length === 0) return;
  writer.uint32(tagOf(field, 'bytes')).fork();
  for (const value of values) writer.int64(value);
  writer.ldelim();
}
