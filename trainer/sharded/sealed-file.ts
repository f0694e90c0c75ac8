/** Files that carry the digest of what is in them: one that is cut short, or has other bytes, is read as not there. */

import { createHash, randomUUID } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { deserialize, serialize } from 'node:v8';

const DIGEST_BYTES = 32;

const digestOf = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();

/** What was read, and the SHA-256 of its bytes as hexadecimal digits. */
export interface Sealed<T> {
  readonly value: T;
  readonly sha256: string;
}

/**
 * Writes aside, then renames; the same value gives the same bytes. Typed arrays keep their bits. The folder must be
 * there: a writer that comes late must not bring back what was cleared away.
 */
export async function writeSealed(file: string, value: unknown): Promise<string> {
  const bytes = serialize(value);
  const digest = digestOf(bytes);
  const aside = `${file}.partial-${randomUUID()}`;
  try {
    const handle = await open(aside, 'wx');
    try {
      await handle.writeFile(digest);
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(aside, file);
  } catch (error) {
    await rm(aside, { force: true }).catch(() => undefined);
    throw error;
  }
  return digest.toString('hex');
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** `undefined` where there is none, or it is torn. */
export async function readSealed<T>(file: string): Promise<Sealed<T> | undefined> {
  const bytes = await readFile(file).catch((error: unknown) => {
    if (isMissing(error)) return Buffer.alloc(0);
    throw error;
  });
  const [digest, content] = [bytes.subarray(0, DIGEST_BYTES), bytes.subarray(DIGEST_BYTES)];
  if (digest.length < DIGEST_BYTES || !digestOf(content).equals(digest)) return undefined;
  return { value: deserialize(content) as T, sha256: digest.toString('hex') };
}
