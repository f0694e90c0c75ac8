/**
 * What users of this machine said by the command line that a stack's workers may use: folders and modules, a file each in
 * the stack's home. To write there takes the account that the stack belongs to; no client of Temporal can.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writeWhole } from '#setup/files.mjs';

const word = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.enum(['read', 'write']), path: z.string().startsWith('/') }),
  z.strictObject({ kind: z.literal('module'), path: z.string().startsWith('/'), sha256: z.string() }),
]);

/** `path` with its links resolved; a module's as it is named, with the SHA-256 of the file as it was then. */
export type LocalWord = z.infer<typeof word>;

export interface LocalWords {
  readonly read: readonly string[];
  readonly write: readonly string[];
  /** Digests of modules, by path. */
  readonly modules: ReadonlyMap<string, string>;
}

const folderOf = (home: string): string => join(home, 'allowed');

/** Says it once for the stack of `home`; of a module, its last digest stands. */
export function sayWord(home: string, said: LocalWord): void {
  mkdirSync(folderOf(home), { recursive: true, mode: 0o700 });
  const name = createHash('sha256').update(`${said.kind}\0${said.path}`).digest('hex');
  writeWhole(join(folderOf(home), `${name}.json`), `${JSON.stringify(said)}\n`);
}

function filesOf(home: string): string[] {
  try {
    return readdirSync(folderOf(home)).filter((name) => /^[0-9a-f]{64}\.json$/.test(name));
  } catch {
    return [];
  }
}

/** What cannot be read allows nothing. */
function readWord(path: string): LocalWord[] {
  try {
    return [word.parse(JSON.parse(readFileSync(path, 'utf8')))];
  } catch {
    return [];
  }
}

/** As it is now: what is said is in force at once. */
export function wordsOf(home: string): LocalWords {
  const words = filesOf(home).flatMap((name) => readWord(join(folderOf(home), name)));
  const placesOf = (kind: 'read' | 'write') => words.flatMap((one) => (one.kind === kind ? [one.path] : []));
  const modules = words.flatMap((one) => (one.kind === 'module' ? [[one.path, one.sha256] as const] : []));
  return { read: placesOf('read'), write: placesOf('write'), modules: new Map(modules) };
}
