/**
 * The state directory: one folder per sandbox, named by the hash of its id. A folder is renamed into place together
 * with its id and its maker, so exactly one of several makers launches the sandbox.
 */

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { type ProcessIdentity, formatIdentity, identify, isAlive, parseIdentity } from './process-identity.ts';

/** The files of a sandbox's folder. They name the processes that hold it. */
export const stateFile = {
  id: 'id',
  /** The process that made the folder. */
  maker: 'maker',
  /** The process on the host that waits for the sandbox. */
  owner: 'owner',
  /** Pid 1 of the sandbox, as the host sees it. */
  inner: 'inner',
  /** Bubblewrap's information about the sandbox (JSON). */
  info: 'info',
  /** The control groups, one per line. */
  cgroups: 'cgroups',
  socket: 'socket',
  journal: 'journal',
  log: 'log',
} as const;

let claims = 0;

export const folderName = (id: string): string => createHash('sha256').update(id).digest('hex').slice(0, 24);

export const folderOf = (stateDir: string, id: string): string => join(stateDir, folderName(id));

export function readState(folder: string, name: keyof typeof stateFile): string | undefined {
  try {
    return readFileSync(join(folder, stateFile[name]), 'utf8');
  } catch {
    return undefined;
  }
}

export function readIdentity(folder: string, name: 'maker' | 'owner' | 'inner'): ProcessIdentity | undefined {
  const text = readState(folder, name);
  return text === undefined ? undefined : parseIdentity(text);
}

export function writeIdentity(folder: string, name: 'maker' | 'inner', who: ProcessIdentity): void {
  const path = join(folder, stateFile[name]);
  writeFileSync(`${path}.partial`, formatIdentity(who));
  renameSync(`${path}.partial`, path);
}

const isTaken = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST');

/** Claims the folder of `id` for this process. Returns `undefined` if it exists already. */
export function claimFolder(stateDir: string, id: string): string | undefined {
  const folder = folderOf(stateDir, id);
  claims += 1;
  const aside = `${folder}.partial-${process.pid}-${claims}`;
  const self = identify(process.pid);
  mkdirSync(aside, { recursive: true, mode: 0o700 });
  try {
    writeFileSync(join(aside, stateFile.id), id);
    if (self !== undefined) writeIdentity(aside, 'maker', self);
    renameSync(aside, folder);
    return folder;
  } catch (error) {
    rmSync(aside, { recursive: true, force: true });
    if (isTaken(error)) return undefined;
    throw error;
  }
}

/**
 * Passes the folder of one id, with its sandbox, to another id. If several processes call it, exactly one succeeds.
 * Returns false for the others, and if the other id has a folder already.
 */
export function passOnFolder(stateDir: string, from: string, to: string): boolean {
  const folder = folderOf(stateDir, to);
  try {
    renameSync(folderOf(stateDir, from), folder);
  } catch (error) {
    if (isTaken(error) || (error instanceof Error && 'code' in error && error.code === 'ENOENT')) return false;
    throw error;
  }
  writeId(folder, to);
  const self = identify(process.pid);
  if (self !== undefined) writeIdentity(folder, 'maker', self);
  return true;
}

/** Writes the id into the folder: a process that passed the folder on may have died before it wrote the new id. */
export function writeId(folder: string, id: string): void {
  if (readState(folder, 'id') === id) return;
  const path = join(folder, stateFile.id);
  writeFileSync(`${path}.partial`, id);
  renameSync(`${path}.partial`, path);
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

const ENDING = '.ending-';

/** Renames the folder of a sandbox that is about to end, if the folder exists. */
export function setAside(folder: string): void {
  claims += 1;
  try {
    renameSync(folder, `${folder}${ENDING}${process.pid}-${claims}`);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
  }
}

/** Folders of sandboxes that are about to end, whose names start with `prefix`. */
export function endingFolders(stateDir: string, prefix: string): string[] {
  const names = readdirSync(stateDir).filter((name) => name.startsWith(prefix) && name.includes(ENDING));
  return names.map((name) => join(stateDir, name));
}

/** The folders of sandboxes in the state directory, with their ids. */
export function listFolders(stateDir: string): Array<{ readonly id: string; readonly folder: string }> {
  let names: string[];
  try {
    names = readdirSync(stateDir);
  } catch {
    return [];
  }
  return names
    .filter((name) => /^[0-9a-f]{24}$/u.test(name))
    .toSorted()
    .flatMap((name) => {
      const folder = join(stateDir, name);
      const id = readState(folder, 'id');
      return id === undefined ? [] : [{ id, folder }];
    });
}

/** Removes folders that were half-claimed by processes which have since died. */
export function removeHalfClaimed(stateDir: string): void {
  for (const name of readdirSync(stateDir)) {
    const pid = /\.partial-(\d+)-\d+$/u.exec(name)?.[1];
    if (pid !== undefined && identify(Number(pid)) === undefined) removeFolder(join(stateDir, name));
  }
}

/** True if no process of the sandbox runs, and none that makes it. */
export function hasEnded(folder: string): boolean {
  const owner = readIdentity(folder, 'owner');
  const inner = readIdentity(folder, 'inner');
  const maker = readIdentity(folder, 'maker');
  if (owner === undefined) return maker === undefined || !isAlive(maker);
  return !isAlive(owner) && (inner === undefined || !isAlive(inner));
}

/** Runs all functions in order, even if some fail. Errors: the first error, after all have run. */
export async function allOf(things: ReadonlyArray<() => Promise<unknown>>): Promise<void> {
  const failed: unknown[] = [];
  for (const thing of things) await thing().catch((error: unknown) => failed.push(error));
  if (failed.length > 0) throw failed[0];
}
