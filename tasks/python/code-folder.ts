/** The Python files of a folder: what a dataset's digest covers, and what is copied into a sandbox. */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';

const MOST_FILES = 2000;
const MOST_BYTES = 16 << 20;
/** Not part of an environment's code. */
const SKIPPED = /^(?:\..*|__pycache__|node_modules|venv|env|site-packages)$/;

export interface CodeFile {
  /** Relative to the folder. */
  readonly path: string;
  readonly content: Buffer;
}

/** In the order of their paths. Links are not followed. Errors: `UserInputError` if it is none, or holds too much. */
export function codeIn(folder: string, field: string): CodeFile[] {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new UserInputError(field, folder, 'give a folder of Python modules');
  const files: CodeFile[] = [];
  let bytes = 0;
  const walk = (below: string): void => {
    const entries = readdirSync(join(folder, below), { withFileTypes: true });
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(below, entry.name);
      if (SKIPPED.test(entry.name)) continue;
      if (entry.isDirectory()) walk(path);
      if (!entry.isFile() || !/\.(?:py|json|txt|toml|ya?ml)$/.test(entry.name)) continue;
      const content = readFileSync(join(folder, path));
      bytes += content.length;
      files.push({ path, content });
      if (files.length > MOST_FILES || bytes > MOST_BYTES)
        throw new UserInputError(
          field,
          folder,
          `give a folder with the environment's modules alone: at most ${MOST_FILES} files and ${MOST_BYTES >> 20} MiB`,
        );
    }
  };
  walk('');
  return files;
}

export function digestOfCode(folders: ReadonlyArray<readonly CodeFile[]>): string {
  const hash = createHash('sha256');
  for (const files of folders)
    for (const { path, content } of files) hash.update(`${JSON.stringify([path, content.length])}\n`).update(content);
  return hash.digest('hex');
}
