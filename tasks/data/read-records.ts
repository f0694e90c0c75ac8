/**
 * Reads a file of records, and checks each: errors name the file, the record's number and the field. JSON Lines
 * (`.jsonl`, `.ndjson`), one JSON array (`.json`), or Parquet (`.parquet`).
 */

import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { extname } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import type { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { parquetRows } from './parquet-rows.ts';

export interface Records<Row> {
  /** SHA-256 of the file's bytes, as hexadecimal digits. */
  readonly digest: string;
  readonly rows: readonly Row[];
}

/** An invalid record. */
export class BadRecord extends Error {
  override readonly name = 'BadRecord';
  readonly file: string;
  /** From 1: the line, the element of the array, or the row. */
  readonly number: number;
  /** Dotted. Empty for the whole record. */
  readonly field: string;

  constructor(file: string, number: number, field: string, reason: string) {
    super(`${file}, record ${number}${field === '' ? '' : `, field ${field}`}: ${reason}`);
    this.file = file;
    this.number = number;
    this.field = field;
  }
}

function checked<Row>(file: string, number: number, value: unknown, schema: z.ZodType<Row>): Row {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new BadRecord(file, number, (issue?.path ?? []).join('.'), issue?.message ?? 'it is invalid');
}

function parsed(file: string, number: number, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BadRecord(file, number, '', (error as Error).message);
  }
}

/** Lines end at line feeds alone: Node's own reader also ends them at characters that JSON texts may hold. */
async function* linesOf(file: string, hash: Hash): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    const lines = (rest + decoder.write(chunk)).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  yield rest + decoder.end();
}

async function readLines<Row>(file: string, schema: z.ZodType<Row>): Promise<Records<Row>> {
  const hash = createHash('sha256');
  const rows: Row[] = [];
  let number = 0;
  for await (const line of linesOf(file, hash)) {
    number += 1;
    if (line.trim() !== '') rows.push(checked(file, number, parsed(file, number, line), schema));
  }
  return { digest: hash.digest('hex'), rows };
}

async function readArray<Row>(file: string, schema: z.ZodType<Row>): Promise<Records<Row>> {
  const bytes = await readFile(file);
  const value = parsed(file, 1, bytes.toString('utf8'));
  if (!Array.isArray(value)) throw new BadRecord(file, 1, '', 'the file must have one JSON array of records');
  const rows = value.map((one, i) => checked(file, i + 1, one, schema));
  return { digest: createHash('sha256').update(bytes).digest('hex'), rows };
}

async function readTable<Row>(file: string, schema: z.ZodType<Row>): Promise<Records<Row>> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  const rows: Row[] = [];
  try {
    for await (const row of parquetRows(file)) rows.push(checked(file, rows.length + 1, row, schema));
  } catch (error) {
    if (error instanceof BadRecord) throw error;
    throw new BadRecord(file, rows.length + 1, '', (error as Error).message);
  }
  return { digest: hash.digest('hex'), rows };
}

/** Reads the whole file. Errors: `BadRecord`; `UserInputError` for another kind of file; those of the read. */
export async function readRecords<Row>(file: string, schema: z.ZodType<Row>): Promise<Records<Row>> {
  const kind = extname(file).toLowerCase();
  if (kind === '.jsonl' || kind === '.ndjson') return readLines(file, schema);
  if (kind === '.json') return readArray(file, schema);
  if (kind === '.parquet') return readTable(file, schema);
  throw new UserInputError('file', file, 'give a file of records: .jsonl, .ndjson, .json or .parquet');
}
