/**
 * Follows a file: reports each line that is appended from now on once, until `signal` fires. If the file's front was
 * removed, reading continues after the last bytes that were read. If the file was emptied, it is read from its start.
 */

import { open, stat } from 'node:fs/promises';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;
/** Last bytes read. They mark the position in a file whose front was removed: lines have a time, so they occur once. */
const KNOWN_BYTES = 1024;

export async function followFile(path: string, say: (line: string) => void, signal: AbortSignal): Promise<void> {
  let position = await sizeOf(path);
  let known = await readRange(path, Math.max(0, position - KNOWN_BYTES), position).catch(() => Buffer.alloc(0));
  // A character of several bytes may be cut in two by the end of a read.
  let decoder = new StringDecoder('utf8');
  let rest = '';
  while (!signal.aborted) {
    const size = await sizeOf(path);
    if (size < position) {
      position = await positionAfter(path, known, size);
      if (position === 0) [decoder, rest] = [new StringDecoder('utf8'), ''];
    }
    if (size > position) {
      const read = await readRange(path, position, size);
      const lines = (rest + decoder.write(read)).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) say(line);
      position += read.length;
      known = Buffer.concat([known, read]).subarray(-KNOWN_BYTES);
    }
    await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    (found) => found.size,
    () => 0,
  );
}

/** The position after `known` in a file of `size` bytes; 0 if the file does not contain `known`. */
async function positionAfter(path: string, known: Buffer, size: number): Promise<number> {
  const at = known.length === 0 ? -1 : (await readRange(path, 0, size)).lastIndexOf(known);
  return at < 0 ? 0 : at + known.length;
}

async function readRange(path: string, start: number, end: number): Promise<Buffer> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
