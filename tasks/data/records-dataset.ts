/** A dataset whose tasks are records, by split. */

import { createHash } from 'node:crypto';
import { type Dataset, type Task, UnknownTask } from '../environment.ts';
import type { Records } from './read-records.ts';

/** `taskOf` returns the task of a record, `labelOf` its name in its source. */
export function recordsDataset<Row>(
  splits: Readonly<Record<string, Records<Row>>>,
  taskOf: (row: Row, split: string, index: number) => Task | Promise<Task>,
  labelOf?: (row: Row) => string,
): Dataset {
  const rowOf = (split: string, index: number): Row => {
    const row = splits[split]?.rows[index];
    if (row === undefined)
      throw new UnknownTask(`${split}-${index}`, 'expected a split and an index that the records have');
    return row;
  };
  const digests = Object.entries(splits).map(([split, { digest }]) => [split, digest]);
  return {
    digest: createHash('sha256').update(JSON.stringify(digests)).digest('hex'),
    splits: Object.fromEntries(Object.entries(splits).map(([split, { rows }]) => [split, rows.length])),
    ...(labelOf && { label: (split: string, index: number) => labelOf(rowOf(split, index)) }),
    load: async (split, index) => await taskOf(rowOf(split, index), split, index),
  };
}
