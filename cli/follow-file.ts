/** The lines that a file gains from now on, until told to stop; a file that was emptied is read from its start. */

import { open, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 200;

export async function followFile(path: string, say: (line: string) => void, signal: AbortSignal): Promise<void> {
  let position = await sizeOf(path);
  let rest = '';
  while (!signal.aborted) {
    const size = await sizeOf(path);
    if (size < position) position = 0;
    if (size > position) {
      const lines = (rest + (await readRange(path, position, size))).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) say(line);
      position = size;
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

async function readRange(path: string, start: number, end: number): Promise<string> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
    return buffer.subarray(0, bytesRead).toString('utf8');
  } finally {
    await file.close();
  }
}
