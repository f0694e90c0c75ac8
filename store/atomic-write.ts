/** Files that are there whole or not at all: written aside, flushed to the disk, then renamed. What is aside of a writer that was killed goes later. */

import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { classifyDiskError } from './disk-errors.ts';

const ASIDE = /\.partial-[\w-]+$/;

/**
 * Writers of the same file, retries in one process among them, never share what is aside.
 * Errors: `StoreFull`, `StoreReadOnly`, others of the file system; nothing is left aside then.
 */
export async function writeAtomically(path: string, content: string | Uint8Array): Promise<void> {
  const aside = `${path}.partial-${randomUUID()}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    // Else the new name may reach the disk before the bytes do: a machine that loses its power then has an empty file.
    await writeFile(aside, content, { flush: true });
    await rename(aside, path);
  } catch (error) {
    // What could not be written must not keep a full disk full.
    await rm(aside, { force: true }).catch(() => undefined);
    throw classifyDiskError(error, path);
  }
}

async function modified(path: string): Promise<number> {
  return stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => Number.POSITIVE_INFINITY,
  );
}

/** Removes, anywhere in `dir`, what killed writers left aside and nobody has written to for `idleMs`. */
export async function removeLeftovers(dir: string, idleMs: number): Promise<void> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true }).catch(() => []);
  const now = Date.now();
  for (const { name, parentPath } of entries) {
    const path = join(parentPath, name);
    if (ASIDE.test(name) && now - (await modified(path)) >= idleMs) await rm(path, { recursive: true, force: true });
  }
}
