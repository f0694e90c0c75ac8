/**
 * The records of a file, one after the other, as its format has them: JSON Lines, one JSON array, CSV or TSV, each also
 * compressed by gzip, and Parquet. A record that cannot be read has its reason; the memory does not grow with the file,
 * except for a JSON array.
 */

import { isUtf8 } from 'node:buffer';
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { NOT_UTF8, type RawRecord } from './bad-record.ts';
import { csvRecords } from './csv-records.ts';
import { parquetRows } from './parquet-rows.ts';

export const KINDS = '.jsonl, .ndjson, .json, .csv or .tsv (each also with .gz), or .parquet';
/** Bytes of one record, or of a JSON array. */
const MOST_OF_RECORD = 64 * 1024 * 1024;
const MOST_OF_ARRAY = 256 * 1024 * 1024;
const FEED = 10;

type Bytes = AsyncIterable<Buffer>;

async function* hashed(file: string, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of createReadStream(file) as Bytes) {
    hash.update(chunk);
    yield chunk;
  }
}

const bytesOf = (file: string, hash: Hash, isZipped: boolean): Readable => {
  const bytes = Readable.from(hashed(file, hash), { objectMode: false });
  // The reader of the end of the pipeline receives its errors.
  return isZipped ? pipeline(bytes, createGunzip(), () => undefined) : bytes;
};

/** Lines end at line feeds alone: Node's own reader also ends them at characters that JSON texts may hold. */
async function* linesOf(bytes: Bytes): AsyncGenerator<Buffer | undefined> {
  let [parts, size]: [Buffer[], number] = [[], 0];
  const taken = (): Buffer | undefined => {
    const line = size > MOST_OF_RECORD ? undefined : Buffer.concat(parts);
    [parts, size] = [[], 0];
    return line;
  };
  const add = (part: Buffer): void => {
    size += part.length;
    if (size <= MOST_OF_RECORD) parts.push(part);
    else parts = [];
  };
  for await (const chunk of bytes) {
    let from = 0;
    for (let end = chunk.indexOf(FEED); end >= 0; end = chunk.indexOf(FEED, from)) {
      add(chunk.subarray(from, end));
      yield taken();
      from = end + 1;
    }
    add(chunk.subarray(from));
  }
  yield taken();
}

const unmarked = (text: string): string => (text.startsWith('\uFEFF') ? text.slice(1) : text);

function parsed(number: number, text: string): RawRecord {
  try {
    return { number, value: JSON.parse(text) as unknown };
  } catch (error) {
    return { number, problem: (error as Error).message };
  }
}

async function* lineRecords(bytes: Bytes): AsyncGenerator<RawRecord> {
  let number = 0;
  for await (const line of linesOf(bytes)) {
    number += 1;
    if (line === undefined) yield { number, problem: `the line has more than ${MOST_OF_RECORD} bytes` };
    else if (!isUtf8(line)) yield { number, problem: NOT_UTF8 };
    else {
      const text = number === 1 ? unmarked(line.toString('utf8')) : line.toString('utf8');
      if (text.trim() !== '') yield parsed(number, text);
    }
  }
}

/** Errors: `TypeError` for bytes that are not UTF-8. */
async function* decoded(bytes: Bytes): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const checked = (chunk: Buffer | undefined): string => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined });
    } catch {
      throw new TypeError(NOT_UTF8);
    }
  };
  for await (const chunk of bytes) yield checked(chunk);
  yield checked(undefined);
}

async function* arrayRecords(bytes: Bytes): AsyncGenerator<RawRecord> {
  let [text, size] = ['', 0];
  for await (const part of decoded(bytes)) {
    size += Buffer.byteLength(part);
    if (size > MOST_OF_ARRAY) break;
    text += part;
  }
  if (size > MOST_OF_ARRAY) {
    yield { number: 1, problem: `the file has more than ${MOST_OF_ARRAY} bytes: write a record a line, as .jsonl` };
    return;
  }
  const whole = parsed(1, unmarked(text));
  if ('problem' in whole) yield whole;
  else if (!Array.isArray(whole.value)) yield { number: 1, problem: 'the file must have one JSON array of records' };
  else yield* whole.value.map((value: unknown, i) => ({ number: i + 1, value }));
}

async function* tableRecords(file: string, hash: Hash): AsyncGenerator<RawRecord> {
  for await (const chunk of createReadStream(file) as Bytes) hash.update(chunk);
  let number = 1;
  for await (const value of parquetRows(file)) {
    yield { number, value };
    number += 1;
  }
}

/** What a name ends with: `.jsonl`, and whether `.gz` follows. */
function kindOf(file: string): { readonly kind: string; readonly isZipped: boolean } {
  const [, kind = '', zipped] = /(\.[a-z]+)(\.gz)?$/.exec(file.toLowerCase()) ?? [];
  return { kind, isZipped: zipped !== undefined };
}

function recordsOf(file: string, hash: Hash): AsyncGenerator<RawRecord> {
  const { kind, isZipped } = kindOf(file);
  const bytes = (): Readable => bytesOf(file, hash, isZipped);
  if (kind === '.jsonl' || kind === '.ndjson') return lineRecords(bytes());
  if (kind === '.json') return arrayRecords(bytes());
  if (kind === '.csv' || kind === '.tsv') return csvRecords(bytes(), kind === '.csv' ? ',' : '\t', MOST_OF_RECORD);
  if (kind === '.parquet' && !isZipped) return tableRecords(file, hash);
  throw new UserInputError('file', file, `give a file of records: ${KINDS}`);
}

/**
 * Calls `onRecord` for every record, in order, and returns the SHA-256 of the file's bytes, as hexadecimal digits. The
 * last record of a damaged file has the reason. Errors: `UserInputError` for another kind of file; those of opening the
 * file, and of `onRecord`.
 */
export async function readRaw(file: string, onRecord: (raw: RawRecord) => void): Promise<string> {
  // A pipe or a device would be read without end.
  if (!(await stat(file)).isFile()) throw new UserInputError('file', file, `give a file of records: ${KINDS}`);
  const hash = createHash('sha256');
  const records = recordsOf(file, hash);
  let last = 0;
  for (;;) {
    const next = await records.next().catch((error: unknown) => {
      // The file system's errors are no errors of a record.
      if (error instanceof Error && 'syscall' in error) throw error;
      return { done: false as const, value: { number: last + 1, problem: (error as Error).message } };
    });
    if (next.done === true) return hash.digest('hex');
    last = next.value.number;
    onRecord(next.value);
  }
}
