/** Log files that processes append to on their own: none grows past a size, and none needs the supervisor to write. */

import { copyFileSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, statSync, truncateSync } from 'node:fs';
import { dirname } from 'node:path';

const KEPT = 3;

/** Opens for appending: children hold the descriptor themselves, so they outlive the supervisor and lose no line. */
export function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true });
  return openSync(path, 'a');
}

/**
 * Moves what a log holds to `path.1` (and that to `path.2`, up to three) when it is larger than `maxBytes`. Writers
 * keep their descriptors: the file is copied and then emptied, and appending goes on at its new end.
 */
export function rotateLog(path: string, maxBytes: number): boolean {
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) <= maxBytes) return false;
  for (let index = KEPT - 1; index >= 1; index -= 1) {
    if (existsSync(`${path}.${index}`)) renameSync(`${path}.${index}`, `${path}.${index + 1}`);
  }
  copyFileSync(path, `${path}.1`);
  truncateSync(path, 0);
  return true;
}

/** The last lines of a log, for a message about what went wrong; empty when there is none. */
export function logTail(path: string, lines = 20): string {
  if (!existsSync(path)) return '';
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
}
