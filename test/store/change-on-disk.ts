/** Changes bytes of a store's file on the disk, which SQLite itself does not notice. */

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';

/** Replaces each `from` by its `to`, of equal length, in all of SQLite's copies. The store at `dir` must be closed. */
export function changeOnDisk(dir: string, ...changes: ReadonlyArray<readonly [from: string, to: string]>): void {
  const file = join(dir, 'store.sqlite');
  const bytes = readFileSync(file);
  const places: Array<readonly [number, string]> = [];
  for (const [from, to] of changes) {
    expect([from, bytes.includes(from), Buffer.byteLength(to)]).toEqual([from, true, Buffer.byteLength(from)]);
    for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + 1)) places.push([at, to]);
  }
  for (const [at, to] of places) bytes.write(to, at);
  writeFileSync(file, bytes);
}
