/** A lock file that names its holder's pid and start time: one living process holds it, and a dead one never does. */

import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import { isAlive, ownIdentity } from './process-identity.mjs';

/** Takes the lock, or returns `undefined` when a living process has it. The returned function gives it back. */
export function tryLock(path) {
  mkdirSync(dirname(path), { recursive: true });
  const mine = JSON.stringify({ ...ownIdentity(), since: new Date().toISOString() });
  const aside = `${path}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(aside, mine);
  try {
    // A link appears with its content or not at all; an exclusive open would show an empty file first.
    if (!linkOnce(aside, path) && !(removeStale(path) && linkOnce(aside, path))) return undefined;
  } finally {
    rmSync(aside, { force: true });
  }
  return () => {
    if (readText(path) === mine) rmSync(path, { force: true });
  };
}

/** The living process that holds the lock, as `{ pid, startTime, since }`. */
export function lockHolder(path) {
  const holder = parse(readText(path));
  return holder !== undefined && isAlive(holder) ? holder : undefined;
}

/** Waits for the lock; `onWait` is called once, with the holder, when it has to. */
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
  // Somebody else may have taken over between the look and the rename: then it is theirs, and goes back.
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
