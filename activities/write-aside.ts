/** Files that are there whole or not at all: written aside, then renamed. */

import { randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Writers of the same file, retries in one process among them, never share what is aside. */
export async function writeAside(path: string, content: string | Uint8Array): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const aside = `${path}.partial-${randomUUID()}`;
  await writeFile(aside, content);
  await rename(aside, path);
}
