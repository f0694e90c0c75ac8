/**
 * Atomic writes: a file is written to a temporary name beside its place, flushed to the disk, then renamed. Temporary
 * files of killed writers are removed later.
 */

import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { classifyDiskError } from './disk-errors.ts';

const ASIDE = /\.partial-[\w-]+$/;

/**
 * Each write has its own temporary file, so that writers of one file (such as retries in one process) do not disturb
 * each other. Errors: `StoreFull`, `StoreReadOnly`, others of the file system; the temporary file is removed then.
 */
export async function writeAtomically(path: string, content: string | Uint8Array): Promise<void> {
  const aside = `${path}.partial-${randomUUID()}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    // Without the flush, the rename may reach the disk before the bytes: a loss of power would leave an empty file.
    await writeFile(aside, content, { flush: true });
    await rename(aside, path);
  } catch (error) {
    // The rest of a failed write would use space on a full disk.
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

/** Removes all temporary files below `dir` that nobody has written to for `idleMs`: their writers were killed. */
export async function removeLeftovers(dir: string, idleMs: number): Promise<void> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true }).catch(() => []);
  const now = Date.now();
  for (const { name, parentPath } of entries) {
    const path = join(parentPath, name);
    if (ASIDE.test(name) && now - (await modified(path)) >= idleMs) await rm(path, { recursive: true, force: true });
  }
}
