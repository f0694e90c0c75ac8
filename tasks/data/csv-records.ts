/**
 * The records of a CSV or TSV text by RFC 4180: the first row is the header, every value is a text, as written. A row
 * that has not as many values as the header is refused, never filled up.
 */

import { pipeline, type Readable } from 'node:stream';
import type { RawRecord } from './bad-record.ts';

/** Errors: `TypeError` for names that are missing or that appear twice. */
function checkHeader(names: readonly string[]): void {
  const missing = names.indexOf('');
  if (missing >= 0) throw new TypeError(`column ${missing + 1} of the header has no name`);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new TypeError(`the header has the column ${JSON.stringify(twice)} twice`);
}

/** `most`: bytes of one record. Errors: for a wrong header, and for quotes that do not fit. */
export async function* csvRecords(bytes: Readable, delimiter: string, most: number): AsyncGenerator<RawRecord> {
  // Loaded here: most processes read none.
  const { parse } = await import('csv-parse');
  const options = { bom: true, delimiter, max_record_size: most, relax_column_count: true, skip_empty_lines: true };
  const rows: AsyncIterable<string[]> = pipeline(bytes, parse(options), () => undefined);
  let header: readonly string[] | undefined;
  let number = 0;
  for await (const row of rows) {
    if (header === undefined) {
      checkHeader(row);
      header = row;
      continue;
    }
    number += 1;
    if (row.length === header.length)
      yield { number, value: Object.fromEntries(header.map((name, i) => [name, row[i]])) };
    else yield { number, problem: `it has ${row.length} values, and the header has ${header.length}` };
  }
  if (header === undefined) throw new TypeError('the file has no header');
}
