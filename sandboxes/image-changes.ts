/**
 * What a `swe` sandbox has changed of its image outside of its own places. The daemon lists the paths, so none is
 * missed. A policy without privileges owns what it makes, so the files of its own among them are all that it made.
 * There is no snapshot if it wrote into a file of another user, moved one, or made one that cannot be named.
 */

import { type Sandbox, SandboxImpossible, type SandboxSpec } from './sandbox.ts';
import { quoted } from './snapshot-archive.ts';
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

const TIMEOUT_MS = 120_000;
/** Bytes of the names of the policy's own files: the daemon's answer has them all. */
const MOST_NAMES = 16_000_000;
/** Bytes of the names of what the policy removed or replaced: the record of a snapshot has them. */
const MOST_REMOVED = 256 << 10;
/** Not of the image, or not writable: the supervisor's own, and the kernel's. */
const NOT_OF_IMAGE = ['/proc', '/sys', '/dev', '/tmp', '/run/longhaul', '/run/longhaul-supervisor'];

/** What decides which places of a sandbox are its own. */
type Own = Pick<SandboxSpec, 'workdir' | 'folders' | 'toolsFolder'>;

/** Runs `find` over the names in a list. Names from the root start no option. */
const each = (list: string, what: string): string =>
  `xargs -0 -r -a ${list} bash -c 'exec find "$@" -maxdepth 0 ${what}' bash`;
const NAMES = `ulimit -t 60; find / -xdev -uid "$UID" -print0 2>/dev/null | head -c ${MOST_NAMES + 1} | wc -c`;
const MOUNTS = "cut -d' ' -f5 /proc/self/mountinfo";

/** Where the lists are. `mine`: relative to the root, with NULs: what belongs into the archive. */
const listsIn = (folder: string) => ({
  added: `${folder}/added`,
  changed: `${folder}/changed`,
  removed: `${folder}/removed`,
  mine: `${folder}/mine`,
});

/** Prints: how many of the names exist, which of the policy's own the image has too, and one of another user's. */
function sort({ mine, ...lists }: ReturnType<typeof listsIn>, workdir: string): string {
  const { added, changed } = lists;
  const ofOthers = [
    each(added, '! -uid "$UID" -print'),
    each(changed, '! -uid "$UID" ! -type d -print'),
    `find ${quoted(workdir)} -xdev ! -uid "$UID" -print`,
  ];
  return [
    `{ ${each(added, '-printf x')}; ${each(changed, '-printf x')}; } 2>/dev/null | wc -c`,
    `{ ${Object.values(lists)
      .map((list) => each(list, '-uid "$UID" -print0'))
      .join('; ')}; } 2>/dev/null | sed -z 's,^/,,' >${mine} || exit 1`,
    `${each(changed, '-uid "$UID" -print0')} 2>/dev/null | head -c ${MOST_REMOVED + 1} | base64 -w 0; echo`,
    `{ ${ofOthers.join('; ')}; } 2>/dev/null | head -n 1`,
  ].join('\n');
}

const isBelow = (path: string, folder: string): boolean => `${path}/`.startsWith(`${folder}/`);
/** The names of a list, each ended by a NUL. */
const listOf = (paths: readonly string[]): Buffer => Buffer.from(paths.map((path) => `${path}\0`).join(''));

async function run(sandbox: Sandbox, callId: string, command: string): Promise<string | undefined> {
  const call = { callId, command, timeoutMs: TIMEOUT_MS, outputLimit: 1 << 20, fresh: true };
  const { exitCode, output } = await sandbox.exec(call);
  return exitCode === 0 ? output : undefined;
}

/** Paths on which the daemon has mounted something. Their places in the image are the daemon's. */
async function mountPoints(sandbox: Sandbox, callId: string): Promise<readonly string[] | undefined> {
  const said = await run(sandbox, `${callId}/mounts`, MOUNTS);
  const unescaped = (path: string) =>
    path.replaceAll(/\\([0-7]{3})/gu, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
  return said?.split('\n').flatMap((path) => (path === '' || path === '/' ? [] : [unescaped(path)]));
}

/**
 * Writes what belongs into the archive to the list `mine` in `folder`, and returns the names of the image that are to
 * be removed. Returns a reason if a snapshot would lack a change.
 */
export async function listChanges(
  sandbox: Sandbox,
  { workdir, folders = [], toolsFolder }: Own,
  { callId, folder }: { readonly callId: string; readonly folder: string },
): Promise<{ readonly mine: string; readonly removed: readonly string[] } | string> {
  if (sandbox.imageChanges === undefined) return 'its provider does not list what it changed of its image';
  const bytes = Number((await run(sandbox, `${callId}/names`, NAMES)) ?? Number.NaN);
  if (!(bytes <= MOST_NAMES)) return `the names of its files have more than ${MOST_NAMES} bytes`;
  const mounts = await mountPoints(sandbox, callId);
  if (mounts === undefined) return 'its mounts cannot be read';
  const changes = await sandbox.imageChanges();
  const own = [...NOT_OF_IMAGE, workdir, ...folders, ...(toolsFolder === undefined ? [] : [TOOLS_AT])];
  const outside = (paths: readonly string[]) =>
    paths.filter((path) => !own.some((place) => isBelow(path, place)) && !mounts.includes(path));
  // Folders above a place are made with it.
  const added = outside(changes.added).filter((path) => ![...own, ...mounts].some((place) => isBelow(place, path)));
  const [changed, removed] = [outside(changes.changed), outside(changes.removed)];
  const lists = listsIn(folder);
  for (const [path, paths] of [
    [lists.added, added] as const,
    [lists.changed, changed] as const,
    [lists.removed, removed] as const,
  ]) {
    const list = { callId: `${callId}/${path}`, path, content: listOf(paths), note: '' };
    const { error } = await sandbox.write(list);
    if (error !== undefined) return `the list of what it changed cannot be written: ${error}`;
  }
  const said = await run(sandbox, `${callId}/sort`, sort(lists, workdir));
  const [, found, base64 = '', others] = /^(\d+)\n([^\n]*)\n(.*)/su.exec(said ?? '') ?? [];
  if (found === undefined) return 'what it changed of its image cannot be read';
  if (Number(found) !== added.length + changed.length)
    return 'it has files outside of its workspace whose names cannot be read';
  // The archive would lack it, or the policy would own it in the restored sandbox.
  if (others !== undefined && others !== '')
    return `it wrote into a file of another user, or moved one: ${others.trim().slice(0, 200)}`;
  // The image has another user's file of the same name, or a folder: it cannot be written over.
  const replaced = Buffer.from(base64, 'base64');
  if (replaced.length + listOf(removed).length > MOST_REMOVED)
    return `the names of what it removed or replaced have more than ${MOST_REMOVED} bytes`;
  const names = replaced.toString().split('\0');
  return { mine: lists.mine, removed: [...removed, ...names.filter((path) => path !== '')] };
}

/** Removes from a new sandbox what the policy removed from the image. Errors: `SandboxImpossible`. */
export async function removeAgain(sandbox: Sandbox, removed: readonly string[]): Promise<void> {
  if (removed.length === 0) return;
  const path = '/tmp/.longhaul-removed';
  const { error } = await sandbox.write({ callId: 'longhaul:removed', path, content: listOf(removed), note: '' });
  const command = `xargs -0 -r -a ${path} rm -rf -- && rm -f ${path}`;
  if (error !== undefined || (await run(sandbox, 'longhaul:remove', command)) === undefined)
    throw new SandboxImpossible(`${sandbox.id}: what a snapshot lacks of the image cannot be removed`);
}
