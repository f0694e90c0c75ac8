/**
 * Files that start with the digest of their content. A file that is truncated or has other bytes is read as missing.
 */

import { createHash, randomUUID } from 'node:crypto';
import { link, open, readFile, rename, rm } from 'node:fs/promises';
import { deserialize, serialize } from 'node:v8';

const DIGEST_BYTES = 32;

const digestOf = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest();

/** A file's value, and the SHA-256 of its bytes in hexadecimal digits. */
export interface Sealed<T> {
  readonly value: T;
  readonly sha256: string;
}

/** Writes `value` to a temporary file, which `place` moves to its final place. Returns the digest. */
async function sealed(file: string, value: unknown, place: (aside: string) => Promise<void>): Promise<string> {
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
    await place(aside);
  } finally {
    await rm(aside, { force: true }).catch(() => undefined);
  }
  return digest.toString('hex');
}

const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;

export const isMissing = (error: unknown): boolean => hasCode(error, 'ENOENT');

/**
 * Writes a temporary file, then renames it. The same value gives the same bytes; typed arrays keep their bits. The
 * folder must exist: a late writer must not create a folder again that was removed.
 */
export const writeSealed = (file: string, value: unknown): Promise<string> =>
  sealed(file, value, (aside) => rename(aside, file));

/**
 * Like `writeSealed`, but never replaces a file: returns `undefined` if it exists. If several writers create it at
 * once, one of them wins.
 */
export async function createSealed(file: string, value: unknown): Promise<string | undefined> {
  let isThere = false;
  const sha256 = await sealed(file, value, async (aside) => {
    try {
      await link(aside, file);
    } catch (error) {
      isThere = hasCode(error, 'EEXIST');
      // Without hard links, a rename is the best that the file system offers.
      if (!isThere) await rename(aside, file);
    }
  });
  return isThere ? undefined : sha256;
}

/** `undefined` if there is none, or it is torn. */
export async function readSealed<T>(file: string): Promise<Sealed<T> | undefined> {
  const bytes = await readFile(file).catch((error: unknown) => {
    if (isMissing(error)) return Buffer.alloc(0);
    throw error;
  });
  const [digest, content] = [bytes.subarray(0, DIGEST_BYTES), bytes.subarray(DIGEST_BYTES)];
  if (digest.length < DIGEST_BYTES || !digestOf(content).equals(digest)) return undefined;
  return { value: deserialize(content) as T, sha256: digest.toString('hex') };
}
