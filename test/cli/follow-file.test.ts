/** Hunts lines of a followed log that are reported twice, or never, because its front was moved away meanwhile. */

import { appendFileSync, mkdtempSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { followFile } from '../../cli/follow-file.ts';

let directory: string;
let stop: AbortController;
beforeEach(() => {
  stop = new AbortController();
  directory = mkdtempSync(join(tmpdir(), 'longhaul-follow-'));
});
afterEach(() => {
  stop.abort();
  rmSync(directory, { recursive: true, force: true });
});

it('reports each line once if the file loses its front or is emptied', async () => {
  const path = join(directory, 'log');
  const line = (n: number) => `${new Date(n * 1000).toISOString()} line ${n}\n`;
  const lines = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => line(from + i)).join('');
  writeFileSync(path, lines(0, 1000));
  const heard: string[] = [];
  const says = (text: string) =>
    vi.waitFor(() => expect(heard.join('\n')).toBe(text.trimEnd()), { timeout: 120_000, interval: 20 });
  const following = followFile(path, (said) => heard.push(said), stop.signal);
  await new Promise((resolve) => setTimeout(resolve, 300));
  appendFileSync(path, lines(1000, 1100));
  await says(lines(1000, 1100));
  // What moved is a multiple of a block, and so starts within a line.
  const rest = readFileSync(path).subarray(20_000);
  writeFileSync(`${path}.new`, Buffer.concat([rest, Buffer.from(line(1100))]));
  renameSync(`${path}.new`, path);
  await says(lines(1000, 1101));
  truncateSync(path, 0);
  appendFileSync(path, line(1101));
  await says(lines(1000, 1102));
  stop.abort();
  await following;
});

it('reports a character whole if a read ends within it', async () => {
  const path = join(directory, 'log');
  writeFileSync(path, '');
  const heard: string[] = [];
  const following = followFile(path, (said) => heard.push(said), stop.signal);
  const line = Buffer.from('2 × 3 = 6\n');
  // Longer than the interval of its polls, so that each part is a read of its own.
  for (const part of [line.subarray(0, 3), line.subarray(3)]) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    appendFileSync(path, part);
  }
  await vi.waitFor(() => expect(heard).toEqual(['2 × 3 = 6']), { timeout: 60_000 });
  stop.abort();
  await following;
});
