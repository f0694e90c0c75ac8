/**
 * Folders and modules that users of this machine allowed, by the command line, to a stack's workers: one file each in
 * the stack's home. Only the account that owns the stack can write there; clients of Temporal cannot.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { writeWhole } from '#setup/files.mjs';

const word = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.enum(['read', 'write']), path: z.string().startsWith('/') }),
  z.strictObject({
    kind: z.literal('bundle'),
    digest: z.templateLiteral(['sha256:', z.string()]),
    paths: z.array(z.string().startsWith('/')),
  }),
]);

/**
 * `path` has its links resolved. A bundle is that of the modules of a run or an eval.
 */
export type LocalWord = z.infer<typeof word>;

export interface LocalWords {
  readonly read: readonly string[];
  readonly write: readonly string[];
  readonly bundles: ReadonlyArray<Extract<LocalWord, { kind: 'bundle' }>>;
}

const folderOf = (home: string): string => join(home, 'allowed');

/** Records one allowance for the stack of `home`. */
export function sayWord(home: string, said: LocalWord): void {
  mkdirSync(folderOf(home), { recursive: true, mode: 0o700 });
  const name = createHash('sha256')
    .update(`${said.kind}\0${said.kind === 'bundle' ? said.digest : said.path}`)
    .digest('hex');
  writeWhole(join(folderOf(home), `${name}.json`), `${JSON.stringify(said)}\n`);
}

function filesOf(home: string): string[] {
  try {
    return readdirSync(folderOf(home)).filter((name) => /^[0-9a-f]{64}\.json$/.test(name));
  } catch {
    return [];
  }
}

/** A file that cannot be read allows nothing. */
function readWord(path: string): LocalWord[] {
  try {
    return [word.parse(JSON.parse(readFileSync(path, 'utf8')))];
  } catch {
    return [];
  }
}

/** Read from disk at each call: a new allowance takes effect at once. */
export function wordsOf(home: string): LocalWords {
  const words = filesOf(home).flatMap((name) => readWord(join(folderOf(home), name)));
  const placesOf = (kind: 'read' | 'write') => words.flatMap((one) => (one.kind === kind ? [one.path] : []));
  const bundles = words.filter((one) => one.kind === 'bundle');
  return { read: placesOf('read'), write: placesOf('write'), bundles };
}
