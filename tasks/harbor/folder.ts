/** Files of a task folder, as they are uploaded and as they are counted: with their modes, in one order. */

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';

/** A file below a folder. Links are followed, since a sandbox has no use for a link to this machine. */
export interface FolderFile {
  /** Relative to the folder. */
  readonly path: string;
  readonly content: Buffer;
  readonly mode: number;
}

const MOST_FILES = 5_000;
const MOST_BYTES = 64 << 20;

export const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
export const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

function pathsBelow(folder: string, into: string[] = []): string[] {
  for (const { name } of readdirSync(folder, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, name);
    if (isFolder(path)) pathsBelow(path, into);
    else if (isFile(path)) into.push(path);
    if (into.length > MOST_FILES)
      throw new UserInputError('data', folder, `a task's folder may have at most ${MOST_FILES} files`);
  }
  return into;
}

/**
 * All files below the folder, sorted by path; none if there is no such folder. Errors: `UserInputError` if too large.
 */
export function filesIn(folder: string): FolderFile[] {
  if (!isFolder(folder)) return [];
  let bytes = 0;
  return pathsBelow(folder).map((path) => {
    const content = readFileSync(path);
    bytes += content.length;
    if (bytes > MOST_BYTES)
      throw new UserInputError('data', folder, `a task's folder may have at most ${MOST_BYTES >> 20} MiB`);
    return { path: relative(folder, path), content, mode: statSync(path).mode & 0o777 };
  });
}

/** SHA-256 of paths, modes to execute, and contents. */
export function digestOf(files: readonly FolderFile[], also: readonly string[] = []): string {
  const hash = createHash('sha256').update(JSON.stringify(also));
  for (const { path, content, mode } of files)
    hash.update(JSON.stringify([path, (mode & 0o100) !== 0, content.length])).update(content);
  return hash.digest('hex');
}

/** As `digestOf`, one file at a time in memory. */
export function digestOfFolder(folder: string): string {
  const hash = createHash('sha256');
  for (const path of pathsBelow(folder)) {
    const content = readFileSync(path);
    hash.update(JSON.stringify([relative(folder, path), (statSync(path).mode & 0o100) !== 0, content.length]));
    hash.update(content);
  }
  return hash.digest('hex');
}
