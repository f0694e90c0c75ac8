/**
 * The options of an environment whose tasks are records of files: a file or several for each split, and which field of
 * a record is which of the environment's.
 */

import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Dataset, EnvironmentIo, Task } from '../environment.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { checked, Faults, NO_RECORDS } from './bad-record.ts';
import { readRaw } from './raw-records.ts';
import { RecordShelf } from './record-shelf.ts';
import { type RecordTable, recordsDataset } from './records-dataset.ts';

const path = z.string().min(1, 'give the path of a file of records, or hub:OWNER/NAME@REVISION/PATH');

const sha256 = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');

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

/** A file that an option names, and its commit if it is on a hub. */
async function located(io: EnvironmentIo, option: string, text: string): Promise<{ path: string; commit?: string }> {
  if (!text.startsWith('hub:')) return { path: io.path(option, text) };
  if (io.hub === undefined)
    throw new UserInputError(option, text, 'give the path of a file: hub ids cannot be used here');
  return io.hub(option, text);
}

/**
 * Reads the files of `options.data`, checks each record by `schema` after its fields are mapped, and returns the tasks
 * that `taskOf` makes of them. Records are not kept in memory: each is read and checked again when its task is loaded.
 * `labelOf`: a record's name in its source. Errors: `BadRecord`, with the file, the record's number and the field of
 * the first ones of all files; `UserInputError` for a file that cannot be read; `DataUnavailable` for one on a hub.
 */
export async function openRecords<Row>(
  { data, fields }: RecordOptions,
  io: EnvironmentIo,
  schema: z.ZodType<Row>,
  taskOf: (row: Row, split: string, index: number) => Task | Promise<Task>,
  labelOf?: (row: Row) => string,
): Promise<Dataset> {
  const read = z.preprocess((record) => mapped(record, fields), schema) as z.ZodType<Row>;
  const faults = new Faults();
  const commits: string[] = [];
  const tableOf = async (split: string, files: readonly string[]): Promise<RecordTable<Row>> => {
    const shelf = new RecordShelf();
    const labels: string[] = [];
    const digests: string[] = [];
    for (const file of files) {
      const { path: at, commit } = await located(io, `data.${split}`, file);
      if (commit !== undefined) commits.push(commit);
      const before = shelf.size + faults.count;
      const digest = await readRaw(at, (raw) => {
        for (const row of checked(at, raw, read, faults)) {
          if ('value' in raw) shelf.put(raw.value);
          if (labelOf !== undefined) labels.push(labelOf(row));
        }
      });
      if (shelf.size + faults.count === before) faults.add(at, 0, '', NO_RECORDS);
      digests.push(digest);
    }
    const [only = ''] = digests;
    return {
      digest: digests.length === 1 ? only : sha256(digests),
      size: shelf.size,
      row: async (index) => {
        const value = await shelf.get(index);
        return value === undefined ? undefined : read.parse(value);
      },
      ...(labelOf !== undefined && { labels }),
    };
  };
  const splits: Record<string, RecordTable<Row>> = {};
  for (const [split, files] of Object.entries(data)) splits[split] = await tableOf(split, [files].flat());
  faults.check();
  const dataset = recordsDataset(splits, taskOf);
  const parts = [dataset.digest, Object.entries(fields), ...(commits.length > 0 ? [commits] : [])];
  return { ...dataset, digest: sha256(parts) };
}
