/** A dataset whose tasks are records, by split. */

import { createHash } from 'node:crypto';
import { type Dataset, type Task, UnknownTask } from '../environment.ts';
import { BadRecord, NO_RECORDS } from './bad-record.ts';
import type { Records } from './read-records.ts';

/** Records that are not in memory. */
export interface RecordTable<Row> {
  /** Changes if a record changes. */
  readonly digest: string;
  readonly size: number;
  /** `undefined` if there is no such record. */
  row(index: number): Promise<Row | undefined>;
  /** The name of each record in its source, if it has one. */
  readonly labels?: readonly string[];
}

const tableOf = <Row>(split: string, given: Records<Row> | RecordTable<Row>): RecordTable<Row> => {
  if (typeof given !== 'object' || given === null || typeof given.digest !== 'string') {
    const what = Array.isArray(given) ? 'a list' : 'no records';
    throw new TypeError(
      `recordsDataset was given ${what} for split ${split}: give what readRecords or openRecords returned, ` +
        'or { rows, digest }, where digest is a text that changes if a row changes',
    );
  }
  if (!('rows' in given)) return given;
  const { digest, rows, file } = given;
  if (rows.length === 0 && file !== undefined) throw new BadRecord(file, 0, '', NO_RECORDS);
  return { digest, size: rows.length, row: async (index) => await Promise.resolve(rows[index]) };
};

/**
 * `taskOf` returns the task of a record, `labelOf` its name in its source, if the records of the split are in memory.
 * Errors: `BadRecord` for a file without records; `TypeError` for what is no records.
 */
export function recordsDataset<Row>(
  splits: Readonly<Record<string, Records<Row> | RecordTable<Row>>>,
  taskOf: (row: Row, split: string, index: number) => Task | Promise<Task>,
  labelOf?: (row: Row) => string,
): Dataset {
  const tables = Object.entries(splits).map(([split, given]) => [split, tableOf(split, given)] as const);
  const bySplit = new Map(tables);
  const unknown = (split: string, index: number): UnknownTask =>
    new UnknownTask(`${split}-${index}`, 'expected a split and an index that the records have');
  const label = (split: string, index: number): string => {
    const given = Object.hasOwn(splits, split) ? splits[split] : undefined;
    const row = given !== undefined && 'rows' in given ? given.rows[index] : undefined;
    const name = row === undefined || labelOf === undefined ? bySplit.get(split)?.labels?.[index] : labelOf(row);
    if (name === undefined) throw unknown(split, index);
    return name;
  };
  const digests = tables.map(([split, { digest }]) => [split, digest]);
  return {
    digest: createHash('sha256').update(JSON.stringify(digests)).digest('hex'),
    splits: Object.fromEntries(tables.map(([split, { size }]) => [split, size])),
    ...((labelOf !== undefined || tables.some(([, { labels }]) => labels !== undefined)) && { label }),
    async load(split, index) {
      const row = await bySplit.get(split)?.row(index);
      if (row === undefined) throw unknown(split, index);
      return await taskOf(row, split, index);
    },
  };
}
