/**
 * Identifies the policy in a directory: by the contents of its files, or, cheaper, by their metadata in the file
 * system. If the files change, the directory holds another policy.
 */

import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';

const PART_OF_POLICY =
  /^(config\.json|adapter_config\.json|generation_config\.json|tokenizer.*|chat_template.*|.*\.safetensors|.*\.safetensors\.index\.json)$/;

/** Large files that sampling does not need. */
export const NOT_OF_THE_POLICY: ReadonlySet<string> = new Set(['optimizer.safetensors']);

/** Names of the directory's own files, sorted. */
export async function filesOf(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map(({ name }) => name)
    .sort();
}

/** SHA-256 over names and contents of a policy's files, in hexadecimal digits. */
export async function fingerprintOf(dir: string): Promise<string> {
  const whole = createHash('sha256');
  const names = (await filesOf(dir)).filter((name) => PART_OF_POLICY.test(name) && !NOT_OF_THE_POLICY.has(name));
  for (const name of names) {
    const one = createHash('sha256');
    for await (const bytes of createReadStream(path.join(dir, name))) one.update(bytes as Uint8Array);
    whole.update(`${name}\0${one.digest('hex')}\n`);
  }
  return whole.digest('hex');
}

/** Name, inode, size and modification time of every file. The text changes if a file is written again. */
export async function stampOf(dir: string): Promise<string> {
  const described = (await filesOf(dir)).map(async (name) => {
    const { ino, size, mtimeNs } = await stat(path.join(dir, name), { bigint: true });
    return `${name} ${ino} ${size} ${mtimeNs}`;
  });
  return (await Promise.all(described)).join('\n');
}

/**
 * Cache of values made from the files of directories, valid while these do not change. Holds the last `kept`
 * directories.
 */
export class MadeOfFiles<T> {
  readonly #make: (dir: string) => Promise<T>;
  readonly #kept: number;
  readonly #known = new Map<string, { readonly stamp: string; readonly made: Promise<T> }>();

  constructor(make: (dir: string) => Promise<T>, kept: number) {
    this.#make = make;
    this.#kept = kept;
  }

  /** Errors: those of making the value, and of a missing directory. Errors are not cached. */
  async of(dir: string): Promise<T> {
    const stamp = await stampOf(dir);
    const known = this.#known.get(dir);
    this.#known.delete(dir);
    const entry = known?.stamp === stamp ? known : { stamp, made: this.#make(dir) };
    this.#known.set(dir, entry);
    entry.made.catch(() => {
      if (this.#known.get(dir) === entry) this.#known.delete(dir);
    });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= this.#kept) break;
      this.#known.delete(oldest);
    }
    return entry.made;
  }
}
