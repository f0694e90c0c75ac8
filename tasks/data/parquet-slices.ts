/**
 * The rows of a Parquet file, a slice of a row group at a time, whatever the size of the groups is; and their values as
 * JSON has them: texts, numbers, booleans, lists and objects.
 */

import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';

/** Bytes of a slice, as its columns are without compression. */
const SLICE = 16 * 1024 * 1024;

/** The value as JSON has it. Errors: `TypeError` for one that JSON cannot hold. */
export function plain(value: unknown): unknown {
  if (typeof value === 'bigint') {
    const number = Number(value);
    if (!Number.isSafeInteger(number)) throw new TypeError(`${value} is too large for a number`);
    return number;
  }
  if (value === undefined) return null;
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) throw new TypeError('bytes cannot be used; write them as a text');
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value as readonly unknown[], plain);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, plain(part)]));
}

/** Errors: those of the read, also for a file that is damaged or no Parquet. */
export async function* parquetSlices(file: string): AsyncGenerator<ReadonlyArray<Record<string, unknown>>> {
  const bytes = await asyncBufferFromFile(file);
  const metadata = await parquetMetadataAsync(bytes);
  let begin = 0;
  for (const group of metadata.row_groups) {
    const end = begin + Number(group.num_rows);
    const slices = Math.max(1, Math.ceil(Number(group.total_byte_size) / SLICE));
    const step = Math.max(1, Math.ceil((end - begin) / slices));
    for (let rowStart = begin; rowStart < end; rowStart += step) {
      const rowEnd = Math.min(end, rowStart + step);
      const range = { rowStart, rowEnd, useOffsetIndex: slices > 1 };
      const rows = await parquetReadObjects({ file: bytes, metadata, compressors, ...range });
      // The number of rows is the file's word: without this, a wrong one would have slices without end.
      if (rows.length === 0) throw new RangeError(`row ${rowStart + 1} of ${end} is missing`);
      yield rows;
    }
    begin = end;
  }
}
