/**
 * Hunts a file that is empty or incomplete after a loss of power: its name must not reach the disk before its
 * bytes. Not asserted: what a real disk does with a flush; full disks and leftovers are disk-errors.test.ts.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { writeAtomically } from '../../store/atomic-write.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longhaul-atomic-'));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(dir, { recursive: true, force: true });
});

it('a file is flushed completely under another name, and only then renamed', async () => {
  const path = join(dir, 'run', 'summary.json');
  await writeAtomically(path, 'before');
  const seen: Record<string, string>[] = [];
  const look = () =>
    Object.fromEntries(
      readdirSync(join(dir, 'run')).map((name) => [
        name.replace(/\.partial-.*/, '.aside'),
        readFileSync(join(dir, 'run', name), 'utf8'),
      ]),
    );
  const handle = await open(path);
  const handles = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  // eslint-disable-next-line @typescript-eslint/unbound-method
  const { sync } = handles;
  vi.spyOn(handles, 'sync').mockImplementation(async function (this: FileHandle) {
    await sync.call(this);
    seen.push(look());
  });
  await writeAtomically(path, 'after');
  expect(seen).toEqual([{ 'summary.json': 'before', 'summary.json.aside': 'after' }]);
  expect(look()).toEqual({ 'summary.json': 'after' });
});
