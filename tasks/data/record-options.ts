/**
 * The options of an environment whose tasks are records of files: a file or several for each split, and which field of
 * a record is which of the environment's.
 */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Dataset, EnvironmentIo, Task } from '../environment.ts';
import { type Records, readRecords } from './read-records.ts';
import { recordsDataset } from './records-dataset.ts';

const path = z.string().min(1, 'give the path of a file of records');

/** Fields for the `options` schema of an environment: `z.strictObject({ ...recordOptions, … })`. */
export const recordOptions = {
  /** A file of records for each split (`train`, `held-out`, `test`), or several that follow each other. */
  data: z
    .record(z.string(), z.union([path, z.array(path).min(1)]))
    .refine((data) => Object.keys(data).length > 0, 'give a file for at least one split, such as train'),
  /** The dotted path in a record of each of the environment's fields. A field that is missing here has its own name. */
  fields: z.record(z.string(), path).default({}),
};

export interface RecordOptions {
  readonly data: Readonly<Record<string, string | readonly string[]>>;
  readonly fields: Readonly<Record<string, string>>;
}

const at = (record: unknown, dotted: string): unknown =>
  dotted
    .split('.')
    .reduce<unknown>(
      (inner, name) =>
        typeof inner === 'object' && inner !== null && Object.hasOwn(inner, name)
          ? (inner as Record<string, unknown>)[name]
          : undefined,
      record,
    );

/** The record with each mapped field under the environment's name. */
function mapped(record: unknown, fields: Readonly<Record<string, string>>): unknown {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return record;
  const named = Object.entries(fields).map(([name, dotted]) => [name, at(record, dotted)] as const);
  return { ...record, ...Object.fromEntries(named) };
}

function joined<Row>(parts: ReadonlyArray<Records<Row>>): Records<Row> {
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const digests = parts.map(({ digest }) => digest);
  return {
    digest: createHash('sha256').update(JSON.stringify(digests)).digest('hex'),
    rows: parts.flatMap(({ rows }) => rows),
  };
}

/**
 * Reads the files of `options.data`, checks each record by `schema` after its fields are mapped, and returns the tasks
 * that `taskOf` makes of them. `labelOf`: a record's name in its source. Errors: `BadRecord`, with the file, the
 * record's number and the field; `UserInputError` for a file that cannot be read.
 */
export async function openRecords<Row>(
  { data, fields }: RecordOptions,
  io: EnvironmentIo,
  schema: z.ZodType<Row>,
  taskOf: (row: Row, split: string, index: number) => Task | Promise<Task>,
  labelOf?: (row: Row) => string,
): Promise<Dataset> {
  const read = z.preprocess((record) => mapped(record, fields), schema) as z.ZodType<Row>;
  const splits: Record<string, Records<Row>> = {};
  for (const [split, files] of Object.entries(data)) {
    const parts: Array<Records<Row>> = [];
    for (const file of [files].flat()) parts.push(await readRecords(io.path(`data.${split}`, file), read));
    splits[split] = joined(parts);
  }
  const dataset = recordsDataset(splits, taskOf, labelOf);
  const digest = createHash('sha256').update(JSON.stringify([dataset.digest, Object.entries(fields)]));
  return { ...dataset, digest: digest.digest('hex') };
}
