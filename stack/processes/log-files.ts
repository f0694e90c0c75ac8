/** Log files that processes append to on their own: none grows past a size, and none needs the supervisor to write. */

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

/** Generations beside the log itself. */
const KEPT = 3;
/** What is taken off a log's front is a multiple of this, and so of any file system's block. */
const BLOCK = 64 * 1024;
const TAIL_BYTES = 64 * 1024;
/** Lines of a log's end that are looked through for repeats. */
const MOST_REPEATED = 400;

/** Opens for appending: children hold the descriptor themselves, so they outlive the supervisor and lose no line. */
export function openLog(path: string): number {
  mkdirSync(dirname(path), { recursive: true });
  return openSync(path, 'a');
}

/**
 * Moves the front of a log that is larger than `maxBytes` to `path.1` (and that to `path.2`, up to three, each of at most
 * `maxBytes`). Writers keep their descriptors and go on appending meanwhile: exactly what was copied is taken off the
 * front, so no byte is lost. Only where the file system cannot do that (tmpfs, network file systems) is the whole file
 * emptied, and what is written in that moment with it.
 */
export function rotateLog(path: string, maxBytes: number): boolean {
  const size = sizeOf(path);
  if (size <= maxBytes) return false;
  const generation = Math.max(BLOCK, Math.floor(maxBytes / BLOCK) * BLOCK);
  // All that would be moved on past the last generation goes without being copied.
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

/** To `path.new`. On a full disk what was copied so far goes again, and the log stays as it is. Errors: those of writing. */
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

/** False where the file system, or this machine's tools, cannot. */
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

/** Without what the end says again: a process that is started several times ends each time with the same words. */
function withoutRepeats(lines: readonly string[]): readonly string[] {
  const said = lines.map(unstamped);
  const isRepeat = (size: number) => said.slice(-size).every((line, i) => line === said[said.length - 2 * size + i]);
  for (let size = 1; 2 * size <= lines.length; size += 1) {
    if (isRepeat(size)) return withoutRepeats([...lines.slice(0, -2 * size), ...lines.slice(-size)]);
  }
  return lines;
}

/** The last lines of a log as they were written, of its last `bytes`; a line that begins before these is left out. */
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
 * The last lines of a log for people, in a message about what went wrong: what is repeated at its end once; empty when
 * there is none.
 */
export function logTail(path: string, lines = 20): string {
  const readable = lastLines(path, TAIL_BYTES).flatMap((line) => readableLine(line).split('\n'));
  return withoutRepeats(readable.slice(-MOST_REPEATED)).slice(-lines).join('\n');
}
