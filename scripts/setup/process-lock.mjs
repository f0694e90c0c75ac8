/** A lock file with its holder's pid and start time: at most one process holds it, and a dead process never does. */

import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { isAlive, ownIdentity } from './process-identity.mjs';

/** Takes the lock. Returns a function that releases it, or `undefined` if a running process has it. */
export function tryLock(path) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = JSON.stringify({ ...ownIdentity(), since: new Date().toISOString() });
  const aside = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(aside, mine);
  try {
    // A link appears with its content at once. With an exclusive open, the file would be empty at first.
    if (!linkOnce(aside, path) && !(removeStale(path) && linkOnce(aside, path))) return undefined;
  } finally {
    rmSync(aside, { force: true });
  }
  return () => {
    if (readText(path) === mine) rmSync(path, { force: true });
  };
}

/** The running process that holds the lock, as `{ pid, startTime, since }`. */
export function lockHolder(path) {
  const holder = parse(readText(path));
  return holder !== undefined && isAlive(holder) ? holder : undefined;
}

/** Runs `work` with the lock. If it must wait, `onWait` is called once, with the holder. */
export async function withLock(path, onWait, work) {
  let waited = false;
  for (;;) {
    const release = tryLock(path);
    if (release !== undefined) {
      try {
        return await work();
      } finally {
        release();
      }
    }
    const holder = lockHolder(path);
    if (!waited && holder !== undefined) {
      waited = true;
      onWait(holder);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

function removeStale(path) {
  const seen = readText(path);
  if (seen === undefined) return true;
  if (lockHolder(path) !== undefined) return false;
  const aside = `${path}.stale.${process.pid}.${randomBytes(4).toString('hex')}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (error.code === 'ENOENT') return true;
    throw error;
  }
  // Another process may have taken the lock between the read and the rename: then its file is put back.
  const isTheirs = readText(aside) !== seen;
  if (isTheirs) linkOnce(aside, path);
  rmSync(aside, { force: true });
  return !isTheirs;
}

function linkOnce(from, to) {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function readText(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function parse(text) {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
