/**
 * The command line of bubblewrap: all namespaces are new, except for a network that sandboxes share, there are no
 * capabilities and no other network, and the system is read-only. Only the workspace, /tmp and /dev/shm are writable,
 * each with a limit on size and number of files.
 */

import { existsSync, lstatSync, readlinkSync } from 'node:fs';

import type { SandboxSpec } from '../sandbox.ts';
import { TOOLS_AT } from '../tools-folder.ts';
import { diskShares, filesIn } from '../supervised/disk.ts';
import { MOST_PSEUDO_TERMINALS } from '../supervised/spec.ts';
import { hostsFile, type Runtime } from '../supervised/runtime.ts';
import type { Bubblewrap } from './find-bubblewrap.ts';

const MIB = 1 << 20;
const INFO_FD = 6;
const SUPERVISOR = '/run/supervisor';

/**
 * True if sandboxes need /usr/local: Debian's own Python is in /usr/bin, and if it is there, /usr/local stays hidden.
 */
export const seesUsrLocal = (): boolean => !existsSync('/usr/bin/python3');

function systemFolders(): string[] {
  const mounts = ['--ro-bind', '/usr', '/usr'];
  if (!seesUsrLocal() && existsSync('/usr/local'))
    mounts.push('--size', String(MIB), '--tmpfs', '/usr/local', '--remount-ro', '/usr/local');
  for (const name of ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']) {
    const stat = lstatSync(name, { throwIfNoEntry: false });
    if (stat?.isSymbolicLink() === true) mounts.push('--symlink', readlinkSync(name), name);
    else if (stat?.isDirectory() === true) mounts.push('--ro-bind', name, name);
  }
  return mounts;
}

function etcFolder(runtime: Runtime, { network }: Pick<SandboxSpec, 'network'>): string[] {
  const mounts = [
    '--ro-bind',
    runtime.etc,
    '/etc',
    ...(network ? ['--ro-bind', hostsFile(runtime, network), '/etc/hosts'] : []),
  ];
  for (const path of ['/etc/alternatives', '/etc/ld.so.cache'])
    if (existsSync(path)) mounts.push('--ro-bind', path, path);
  return mounts;
}

type Places = Pick<SandboxSpec, 'workdir' | 'limits' | 'folders' | 'toolsFolder'>;

function writableFolders({ workdir, limits, folders = [] }: Places): string[] {
  const share = diskShares(limits.diskMiB, folders.length);
  const further = folders.flatMap((folder) => ['--perms', '0755', '--size', String(share.folder), '--tmpfs', folder]);
  const shm = ['--perms', '1777', '--size', String(share.shm), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'];
  const tmp = ['--perms', '1777', '--size', String(share.tmp), '--tmpfs', '/tmp'];
  return [...shm, ...tmp, '--perms', '0755', '--size', String(share.workspace), '--tmpfs', workdir, ...further];
}

/**
 * Arguments of the launcher: a path and a number for each writable place (its number of files, which bubblewrap cannot
 * limit), and for the pseudo-terminals.
 */
export function placeArguments({ workdir, limits, folders = [] }: Places): string[] {
  const share = diskShares(limits.diskMiB, folders.length);
  const places: ReadonlyArray<readonly [string, number]> = [
    ['/dev/shm', share.shm],
    ['/tmp', share.tmp],
    [workdir, share.workspace],
    ...folders.map((folder) => [folder, share.folder] as const),
  ];
  return [
    ...places.flatMap(([path, bytes]) => [path, String(filesIn(bytes, limits))]),
    '/dev/pts',
    String(MOST_PSEUDO_TERMINALS),
  ];
}

/** Arguments of bubblewrap itself, with the program to run. */
export function bubblewrapArguments(
  program: Bubblewrap,
  runtime: Runtime,
  spec: Places & Pick<SandboxSpec, 'network'>,
): string[] {
  const isolation = '--unshare-all --unshare-user --uid 1000 --gid 1000 --cap-drop ALL --new-session';
  const identity = ['--as-pid-1', '--clearenv', '--hostname', 'longhaul', '--info-fd', String(INFO_FD)];
  return isolation.split(' ').concat(
    // With older versions, only the supervisor's filter of system calls prevents nested user namespaces.
    program.disablesUserNamespaces ? ['--disable-userns'] : [],
    // The launcher has joined it.
    spec.network?.joins === undefined ? [] : ['--share-net'],
    identity,
    systemFolders(),
    etcFolder(runtime, spec),
    ['--proc', '/proc', '--dev', '/dev'],
    writableFolders(spec),
    spec.toolsFolder === undefined ? [] : ['--ro-bind', spec.toolsFolder, TOOLS_AT],
    ['--ro-bind', runtime.supervisor, SUPERVISOR, '--remount-ro', '/', '--chdir', '/'],
    ['--', SUPERVISOR, 'supervise'],
  );
}
