/** The source files of a sandbox's workspace: their names and versions, and the texts of those that have changed. */

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import { EXTENSIONS, languageOf } from './languages.ts';

export interface SourceFile {
  /** Relative to the workspace. */
  readonly path: string;
  /** Changes whenever the file is written: size, times and inode. The change time cannot be set by a program. */
  readonly version: string;
  readonly bytes: number;
}

/** The workspace cannot be listed. */
export class Unlisted extends Error {
  override readonly name = 'Unlisted';
}

export const MOST_FILES = 20_000;
export const MOST_BYTES = 64 << 20;
/** A larger file is generated, or data. */
const MOST_FILE_BYTES = 1 << 20;
const LIST_BYTES = 7 << 20;
const SKIPPED = ['.git', '.hg', '.svn', 'node_modules', '__pycache__', '.venv', '.tox', 'target', 'dist', 'build'];

const listed = (): string => {
  const skipped = SKIPPED.map((name) => `-name ${name}`).join(' -o ');
  const sources = EXTENSIONS.map((extension) => `-name '*${extension}'`).join(' -o ');
  return (
    `find . -mindepth 1 -type d \\( ${skipped} \\) -prune -o -type f \\( ${sources} \\) -size ` +
    `-${MOST_FILE_BYTES >> 10}k -printf '%s\\t%T@ %C@ %i\\t%P\\n' 2>/dev/null`
  );
};

const byPath = (a: SourceFile, b: SourceFile): number => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0);

/**
 * Sorted by path. `left`: how many there are beyond the limits. `callId` is this call's own. Errors: `Unlisted`; those
 * of the sandbox.
 */
export async function listSources(
  sandbox: Sandbox,
  callId: string,
  timeoutMs: number,
): Promise<{ readonly files: readonly SourceFile[]; readonly left: number }> {
  const call = { callId, command: listed(), timeoutMs, outputLimit: LIST_BYTES, fresh: true };
  const { output, timedOut, droppedBytes } = await sandbox.exec(call);
  if (timedOut) throw new Unlisted('listing the files took too long');
  const lines = output.split('\n').filter((line) => line !== '');
  // A name with a line feed has two lines, of which none is a file. One with a tab has a line.
  const all = lines
    .flatMap((line): SourceFile[] => {
      const [, size, times, path = ''] = /^(\d+)\t([\d.]+ [\d.]+ \d+)\t(.+)$/su.exec(line) ?? [];
      const isSource = size !== undefined && languageOf(path) !== undefined;
      return isSource ? [{ path, version: `${size} ${times}`, bytes: Number(size) }] : [];
    })
    .toSorted(byPath);
  if (all.length === 0 && lines.length > 0) throw new Unlisted(output.trim().slice(0, 200));
  const unnamed = lines.filter((line) => /^\d+\t/u.test(line)).length - all.length;
  let bytes = 0;
  const files = all.slice(0, MOST_FILES).filter((file) => {
    bytes += file.bytes;
    return bytes <= MOST_BYTES;
  });
  return { files, left: all.length - files.length + unnamed + (droppedBytes > 0 ? 1 : 0) };
}

/** The text of a file; `undefined` if it cannot be read, or is no text. Errors: those of the sandbox. */
export async function readSource(sandbox: Sandbox, path: string): Promise<string | undefined> {
  const found = await sandbox.read(path, MOST_FILE_BYTES);
  if (found.kind !== 'file' || found.content.includes(0)) return undefined;
  return Buffer.from(found.content).toString('utf8');
}
