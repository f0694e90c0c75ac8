/**
 * The records of a CSV or TSV text by RFC 4180: the first row is the header, every value is a text, as written. A row
 * that has not as many values as the header is refused, never filled up.
 */

import { isUtf8 } from 'node:buffer';
import { pipeline, Readable } from 'node:stream';
import { NOT_UTF8, type RawRecord } from './bad-record.ts';

/** Errors: `TypeError` for names that are missing or that appear twice. */
function checkHeader(names: readonly string[]): void {
  const missing = names.indexOf('');
  if (missing >= 0) throw new TypeError(`column ${missing + 1} of the header has no name`);
  // A header may have millions of columns.
  const seen = new Set<string>();
  const twice = names.find((name) => {
    const isKnown = seen.has(name);
    seen.add(name);
    return isKnown;
  });
  if (twice !== undefined) throw new TypeError(`the header has the column ${JSON.stringify(twice)} twice`);
}

const MARK = Buffer.from('\uFEFF');

/** Without a byte order mark. The first chunks may have a part of it each. */
async function* unmarked(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let start: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of bytes) {
    if (start === undefined) yield chunk;
    else {
      start = Buffer.concat([start, chunk]);
      if (start.length < MARK.length) continue;
      yield start.subarray(start.indexOf(MARK) === 0 ? MARK.length : 0);
      start = undefined;
    }
  }
  if (start !== undefined && start.length > 0) yield start;
}

/** `most`: bytes of one record. Errors: for a wrong header, and for quotes that do not fit. */
export async function* csvRecords(bytes: Readable, delimiter: string, most: number): AsyncGenerator<RawRecord> {
  // Loaded here: most processes read none.
  const { parse } = await import('csv-parse');
  // Without an encoding, values are bytes.
  const options = {
    delimiter,
    encoding: null,
    max_record_size: most,
    relax_column_count: true,
    skip_empty_lines: true,
  };
  const rows: AsyncIterable<Buffer[]> = pipeline(Readable.from(unmarked(bytes)), parse(options), () => undefined);
  let header: readonly string[] | undefined;
  let number = 0;
  for await (const cells of rows) {
    const problem = cells.every((cell) => isUtf8(cell)) ? undefined : NOT_UTF8;
    const row = cells.map((cell) => cell.toString('utf8'));
    if (header === undefined) {
      if (problem !== undefined) throw new TypeError(problem);
      checkHeader(row);
      header = row;
      continue;
    }
    number += 1;
    if (problem !== undefined) yield { number, problem };
    else if (row.length === header.length)
      yield { number, value: Object.fromEntries(header.map((name, i) => [name, row[i]])) };
    else yield { number, problem: `it has ${row.length} values, and the header has ${header.length}` };
  }
  if (header === undefined) throw new TypeError('the file has no header');
}
