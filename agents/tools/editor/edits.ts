/** Pure edits of a file's bytes. All other bytes stay unchanged, for any encoding and line ends. */

const NEWLINE = 10;

/** Occurrences that are searched for and listed; more would not help the reader. */
export const MOST_OCCURRENCES = 20;

function countNewlines(bytes: Buffer, begin: number, end: number): number {
  let count = 0;
  for (let at = bytes.indexOf(NEWLINE, begin); at >= 0 && at < end; at = bytes.indexOf(NEWLINE, at + 1)) count += 1;
  return count;
}

/**
 * Lines (from 1) at which `needle` starts. Overlapping occurrences count, since either could be meant. Returns at most
 * `MOST_OCCURRENCES` + 1 lines.
 */
export function occurrences(bytes: Buffer, needle: Buffer): number[] {
  const lines: number[] = [];
  let [line, counted] = [1, 0];
  for (
    let at = bytes.indexOf(needle);
    at >= 0 && lines.length <= MOST_OCCURRENCES;
    at = bytes.indexOf(needle, at + 1)
  ) {
    line += countNewlines(bytes, counted, at);
    counted = at;
    lines.push(line);
  }
  return lines;
}

export function replaceOnce(bytes: Buffer, needle: Buffer, replacement: Uint8Array): Buffer {
  const at = bytes.indexOf(needle);
  return Buffer.concat([bytes.subarray(0, at), replacement, bytes.subarray(at + needle.length)]);
}

/** Number of lines; a last line without a line end counts. */
export function lineCount(bytes: Buffer): number {
  const ends = countNewlines(bytes, 0, bytes.length);
  return bytes.length > 0 && bytes.at(-1) !== NEWLINE ? ends + 1 : ends;
}

/** Inserts `text` as separate lines after line `line`. Returns the number of lines if there is no such line. */
export function insertLine(bytes: Buffer, line: number, text: string): Buffer | number {
  const lines = lineCount(bytes);
  if (line < 0 || line > lines) return lines;
  let at = 0;
  for (let left = line; left > 0; left -= 1) {
    const end = bytes.indexOf(NEWLINE, at);
    at = end < 0 ? bytes.length : end + 1;
  }
  const before = bytes.subarray(0, at);
  const open = before.length > 0 && before.at(-1) !== NEWLINE ? '\n' : '';
  return Buffer.concat([before, Buffer.from(`${open}${text}${text.endsWith('\n') ? '' : '\n'}`), bytes.subarray(at)]);
}
