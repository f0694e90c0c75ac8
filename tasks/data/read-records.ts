/**
 * Reads a file of records into memory, and checks each: errors name the file, the record's number and the field. The
 * formats are those of `raw-records.ts`.
 */

import type { z } from 'zod';
import { checked, Faults } from './bad-record.ts';
import { readRaw } from './raw-records.ts';

export interface Records<Row> {
  /** SHA-256 of the file's bytes, as hexadecimal digits. */
  readonly digest: string;
  readonly rows: readonly Row[];
  /** Where they were read. */
  readonly file?: string;
}

/**
 * Reads the whole file. Errors: `BadRecord`, with the ones that follow; `UserInputError` for another kind of file;
 * those of the read.
 */
export async function readRecords<Row>(file: string, schema: z.ZodType<Row>): Promise<Records<Row>> {
  const rows: Row[] = [];
  const faults = new Faults();
  const digest = await readRaw(file, (raw) => void rows.push(...checked(file, raw, schema, faults)));
  faults.check();
  return { digest, rows, file };
}
