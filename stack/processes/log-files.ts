/** Log files that processes append to without the supervisor; their size is limited. */

import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { readableLine } from '../../workers/logs/readable-log.ts';

/** Older generations that are kept beside the log itself. */
const KEPT = 3;
/** A log's front is removed in multiples of this, and so of any file system's block size. */
const BLOCK = 64 * 1024;
const TAIL_BYTES = 64 * 1024;
/** The most lines at a log's end that are searched for repeats. */
const MOST_REPEATED = 400;

/** Opens for appending: children have the descriptor themselves, so they outlive the supervisor and lose no line. */
export function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true });
  return openSync(path, 'a');
}

/**
 * Moves the front of a log that is larger than `maxBytes` to `path.1` (and that to `path.2`, up to three, each of at
 * most `maxBytes`). Writers keep their descriptors and continue to append: exactly the copied bytes are removed from
 * the front, so no byte is lost. If the file system cannot do that (tmpfs, network file systems), the whole file is
 * emptied, and bytes that are written at that moment are lost.
 */
export function rotateLog(path: string, maxBytes: number): boolean {
  const size = sizeOf(path);
  if (size <= maxBytes) return false;
  const generation = Math.max(BLOCK, Math.floor(maxBytes / BLOCK) * BLOCK);
  // Bytes that would be moved past the last generation are removed without a copy.
  const surplus = Math.floor((size - 1) / generation) * generation - KEPT * generation;
  if (surplus > 0) takeOff(path, surplus);
  for (let index = 0; index <= KEPT && sizeOf(path) > maxBytes; index += 1) {
    const moved = Math.min(generation, Math.floor((sizeOf(path) - 1) / BLOCK) * BLOCK);
    copyAside(path, moved);
    shift(path);
    if (moved === 0 || !takeOff(path, moved)) {
      copyFront(path, `${path}.1`, Number.POSITIVE_INFINITY);
      truncateSync(path, 0);
    }
  }
  return true;
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** `path.new` becomes the newest generation. */
function shift(path: string): void {
  for (let index = KEPT - 1; index >= 1; index -= 1) {
    if (existsSync(`${path}.${index}`)) renameSync(`${path}.${index}`, `${path}.${index + 1}`);
  }
  renameSync(`${path}.new`, `${path}.1`);
}

/** Copies to `path.new`. On a full disk the partial copy is removed, and the log stays. Errors: those of writing. */
function copyAside(path: string, bytes: number): void {
  try {
    copyFront(path, `${path}.new`, bytes);
  } catch (error) {
    rmSync(`${path}.new`, { force: true });
    throw error;
  }
}

function copyFront(from: string, to: string, bytes: number): void {
  const [source, target] = [openSync(from, 'r'), openSync(to, 'w')];
  const buffer = Buffer.alloc(1 << 20);
  try {
    for (let at = 0; at < bytes;) {
      const read = readSync(source, buffer, 0, Math.min(buffer.length, bytes - at), at);
      if (read === 0) return;
      for (let written = 0; written < read;) written += writeSync(target, buffer, written, read - written);
      at += read;
    }
  } finally {
    closeSync(source);
    closeSync(target);
  }
}

/** False if the file system or this machine's tools cannot do it. */
function takeOff(path: string, bytes: number): boolean {
  try {
    execFileSync('fallocate', ['--collapse-range', '--offset', '0', '--length', String(bytes), path], {
      stdio: 'ignore',
    });
    return true;
  } catch {
    return false;
  }
}

const unstamped = (line: string): string => line.replace(/^\d{4}-\d\d-\d\dT[\d:.]+Z /, '');

/** Removes repeats at the end: a process that fails at every start writes the same lines each time. */
function withoutRepeats(lines: readonly string[]): readonly string[] {
  const said = lines.map(unstamped);
  const isRepeat = (size: number) => said.slice(-size).every((line, i) => line === said[said.length - 2 * size + i]);
  for (let size = 1; 2 * size <= lines.length; size += 1) {
    if (isRepeat(size)) return withoutRepeats([...lines.slice(0, -2 * size), ...lines.slice(-size)]);
  }
  return lines;
}

/** The last lines of a log as written, from its last `bytes`; a line that starts before these is left out. */
export function lastLines(path: string, bytes: number): string[] {
  if (!existsSync(path)) return [];
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const buffer = Buffer.alloc(Math.min(size, bytes));
    const read = readSync(file, buffer, 0, buffer.length, size - buffer.length);
    const lines = buffer.toString('utf8', 0, read).trimEnd().split('\n');
    return size > bytes && lines.length > 1 ? lines.slice(1) : lines;
  } finally {
    closeSync(file);
  }
}

/**
 * The last lines of a log in readable form, for an error message; lines that repeat at its end are shown once. Empty if
 * there is no log.
 */
export function logTail(path: string, lines = 20): string {
  const readable = lastLines(path, TAIL_BYTES).flatMap((line) => readableLine(line).split('\n'));
  return withoutRepeats(readable.slice(-MOST_REPEATED)).slice(-lines).join('\n');
}
