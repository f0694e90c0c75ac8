/**
 * What a `swe` sandbox has changed of its image outside of its own places. The daemon lists the paths, so none is
 * missed. A policy without privileges owns what it makes, so the files of its own among them are all that it made; what
 * it wrote into files of other users, or cannot be named, is in no snapshot.
 */

import { type Sandbox, SandboxImpossible, type SandboxSpec } from './sandbox.ts';
import { TOOLS_AT } from './tools-folder.ts';

/** Paths from the root. */
export interface ImageChanges {
  /** New. */
  readonly added: readonly string[];
  /** Of names that the image has: also folders in which something changed. */
  readonly changed: readonly string[];
  /** Of the image. A folder of this name may be there again, with other files. */
  readonly removed: readonly string[];
}

/** Lists that commands in the sandbox read, and no archive holds. */
const FOLDER = '/tmp/.longhaul-changes';
export const OWN_LISTS = FOLDER.slice(1);
/** Relative to the root, with NULs: what belongs into the archive. */
export const MINE = `${FOLDER}/mine`;
const LISTS = { added: `${FOLDER}/added`, changed: `${FOLDER}/changed`, removed: `${FOLDER}/removed` } as const;

const TIMEOUT_MS = 120_000;
/** Bytes of the names of the policy's own files: the daemon's answer has them all. */
const MOST_NAMES = 16_000_000;
/** Bytes of the names of what the policy removed or replaced: the record of a snapshot has them. */
const MOST_REMOVED = 256 << 10;
/** Not of the image, or not writable: the supervisor's own, and the kernel's. */
const NOT_OF_IMAGE = ['/proc', '/sys', '/dev', '/tmp', '/run/longhaul', '/run/longhaul-supervisor'];

/** Runs `find` over the names in a list. Names from the root start no option. */
const each = (list: string, what: string): string =>
  `xargs -0 -r -a ${list} bash -c 'exec find "$@" -maxdepth 0 ${what}' bash`;
const NAMES = `ulimit -t 60; find / -xdev -uid "$UID" -print0 2>/dev/null | head -c ${MOST_NAMES + 1} | wc -c`;
const SORT = [
  `{ ${each(LISTS.added, '-printf x')}; ${each(LISTS.changed, '-printf x')}; } 2>/dev/null | wc -c`,
  `{ ${Object.values(LISTS)
    .map((list) => each(list, '-uid "$UID" -print0'))
    .join('; ')}; } 2>/dev/null | sed -z 's,^/,,' >${MINE} || exit 1`,
  `${each(LISTS.changed, '-uid "$UID" -print0')} 2>/dev/null | head -c ${MOST_REMOVED + 1} | base64 -w 0; echo`,
  `${each(LISTS.changed, '! -uid "$UID" -type f -writable -print')} 2>/dev/null | head -n 1`,
].join('\n');

const isBelow = (path: string, folder: string): boolean => `${path}/`.startsWith(`${folder}/`);
/** The names of a list, each ended by a NUL. */
const listOf = (paths: readonly string[]): Buffer => Buffer.from(paths.map((path) => `${path}\0`).join(''));

async function run(sandbox: Sandbox, callId: string, command: string): Promise<string | undefined> {
  const call = { callId, command, timeoutMs: TIMEOUT_MS, outputLimit: 1 << 20, fresh: true };
  const { exitCode, output } = await sandbox.exec(call);
  return exitCode === 0 ? output : undefined;
}

/**
 * Writes what belongs into the archive to `MINE`, and returns the names of the image that are to be removed. Returns a
 * reason if a snapshot would lack a change.
 */
export async function listChanges(
  sandbox: Sandbox,
  { workdir, folders = [], toolsFolder }: Pick<SandboxSpec, 'workdir' | 'folders' | 'toolsFolder'>,
  callId: string,
): Promise<readonly string[] | string> {
  if (sandbox.imageChanges === undefined) return 'its provider does not list what it changed of its image';
  const bytes = Number((await run(sandbox, `${callId}/names`, NAMES)) ?? Number.NaN);
  if (!(bytes <= MOST_NAMES)) return `the names of its files have more than ${MOST_NAMES} bytes`;
  const changes = await sandbox.imageChanges();
  const own = [...NOT_OF_IMAGE, workdir, ...folders, ...(toolsFolder === undefined ? [] : [TOOLS_AT])];
  const outside = (paths: readonly string[]) => paths.filter((path) => !own.some((place) => isBelow(path, place)));
  const [added, changed, removed] = [outside(changes.added), outside(changes.changed), outside(changes.removed)];
  for (const [path, paths] of [
    [LISTS.added, added] as const,
    [LISTS.changed, changed] as const,
    [LISTS.removed, removed] as const,
  ]) {
    const list = { callId: `${callId}/${path}`, path, content: listOf(paths), note: '' };
    const { error } = await sandbox.write(list);
    if (error !== undefined) return `the list of what it changed cannot be written: ${error}`;
  }
  const said = await run(sandbox, `${callId}/sort`, SORT);
  const [, found, base64 = '', others] = /^(\d+)\n([^\n]*)\n(.*)/su.exec(said ?? '') ?? [];
  if (found === undefined) return 'what it changed of its image cannot be read';
  if (Number(found) !== added.length + changed.length)
    return 'it has files outside of its workspace whose names cannot be read';
  if (others !== undefined && others !== '')
    return `it wrote into a file of another user: ${others.trim().slice(0, 200)}`;
  // The image has another user's file of the same name, or a folder: it cannot be written over.
  const replaced = Buffer.from(base64, 'base64');
  if (replaced.length + listOf(removed).length > MOST_REMOVED)
    return `the names of what it removed or replaced have more than ${MOST_REMOVED} bytes`;
  return [
    ...removed,
    ...replaced
      .toString()
      .split('\0')
      .filter((path) => path !== ''),
  ];
}

/** Removes the lists from the sandbox. */
export async function dropLists(sandbox: Sandbox, callId: string): Promise<void> {
  await run(sandbox, `${callId}/drop`, `rm -rf ${FOLDER}`);
}

/** Removes from a new sandbox what the policy removed from the image. Errors: `SandboxImpossible`. */
export async function removeAgain(sandbox: Sandbox, removed: readonly string[]): Promise<void> {
  if (removed.length === 0) return;
  const list = { callId: 'longhaul:removed', path: LISTS.removed, content: listOf(removed), note: '' };
  const { error } = await sandbox.write(list);
  const command = `xargs -0 -r -a ${LISTS.removed} rm -rf -- && rm -rf ${FOLDER}`;
  if (error !== undefined || (await run(sandbox, 'longhaul:remove', command)) === undefined)
    throw new SandboxImpossible(`${sandbox.id}: what a snapshot lacks of the image cannot be removed`);
}
