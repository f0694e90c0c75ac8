/**
 * The lines that a file gains from now on, until told to stop, each once: a file that lost its front is read on after what
 * was read last, and one that was emptied from its start.
 */

import { open, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;
/** Of what was read last: lines have a time, so these are found in one place only. */
const KNOWN_BYTES = 1024;

export async function followFile(path: string, say: (line: string) => void, signal: AbortSignal): Promise<void> {
  let position = await sizeOf(path);
  let known = await readRange(path, Math.max(0, position - KNOWN_BYTES), position).catch(() => Buffer.alloc(0));
  let rest = '';
  while (!signal.aborted) {
    const size = await sizeOf(path);
    if (size < position) position = await positionAfter(path, known, size);
    if (size > position) {
      const read = await readRange(path, position, size);
      const lines = (rest + read.toString('utf8')).split('\n');
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

/** Where a file that is `size` bytes long goes on after `known`; 0 where it is not in it. */
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
