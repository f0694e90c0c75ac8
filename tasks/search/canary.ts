/**
 * Fields that are encrypted so that they get into no training data: base 64 of the text's bytes, each exclusive-or a
 * byte of the repeated SHA-256 of a canary, as BrowseComp's `simple-evals` does it. Decrypted texts are never written.
 */

import { createHash } from 'node:crypto';

const BASE64 = /^[A-Za-z0-9+/\s]+={0,2}\s*$/;

/** `undefined` if it is no encrypted text, or was encrypted with another canary. */
export function decryptText(text: string, canary: string): string | undefined {
  if (!BASE64.test(text)) return undefined;
  const key = createHash('sha256').update(canary).digest();
  const bytes = Buffer.from(text, 'base64').map((byte, i) => byte ^ (key[i % key.length] ?? 0));
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The inverse of `decryptText`. */
export function encryptText(text: string, canary: string): string {
  const key = createHash('sha256').update(canary).digest();
  return Buffer.from(Buffer.from(text).map((byte, i) => byte ^ (key[i % key.length] ?? 0))).toString('base64');
}

/**
 * The record with the fields decrypted, by its own `canary` or the given one. Without a canary it is unchanged. A field
 * that cannot be decrypted becomes `undefined`, so that the record is refused with the field's name.
 */
export function decrypted(record: unknown, fields: readonly string[], given: string | undefined): unknown {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return record;
  const { canary = given } = record as { readonly canary?: unknown };
  if (typeof canary !== 'string') return record;
  const plain = Object.entries(record).map(([name, value]) =>
    fields.includes(name) && typeof value === 'string' ? [name, decryptText(value, canary)] : [name, value],
  );
  return Object.fromEntries(plain);
}
