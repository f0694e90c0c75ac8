/**
 * Limits on memory, processes and processors by control groups, version 1 or 2, whichever is mounted and writable. A
 * sandbox's groups exist before its first process, and hold all of its processes.
 */

import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { SOCKET_BYTES } from '../supervised/spec.ts';

const PARENT = 'longhaul';

/**
 * Where groups can be made. `cpu` is absent if processors cannot be limited, `cpuacct` if their time is not counted.
 */
export type CgroupHost =
  | {
      readonly version: 1;
      readonly memory: string;
      readonly pids: string;
      readonly cpu?: string;
      readonly cpuacct?: string;
    }
  | { readonly version: 2; readonly parent: string; readonly cpu?: string };

export interface CgroupLimits {
  /** Includes the memory of the sandbox's files, which are in tmpfs. */
  readonly memoryBytes: number;
  readonly processes: number;
  readonly cpus: number;
}

/** The groups of one sandbox. */
export interface Cgroups {
  readonly folders: readonly string[];
  /** Its line `oom_kill N` counts the processes that the kernel's out-of-memory killer ended. */
  readonly oomFile: string;
  /** Holds the processor time of everything that ever ran in the group. The file may be missing. */
  readonly cpuFile?: string;
}

interface Mount {
  readonly point: string;
  readonly type: string;
  readonly options: readonly string[];
}

function cgroupMounts(): Mount[] {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  return lines.flatMap((line) => {
    const [before, after] = line.split(' - ');
    const point = before?.split(' ')[4];
    const [type, , options] = after?.split(' ') ?? [];
    if (point === undefined || type === undefined || !type.startsWith('cgroup')) return [];
    return [{ point, type, options: options?.split(',') ?? [] }];
  });
}

/** The path of this process's group in the hierarchy of `controller` (version 1; the empty string: version 2). */
function ownPath(controller: string): string {
  for (const line of readFileSync('/proc/self/cgroup', 'utf8').split('\n')) {
    const [, controllers, ...path] = line.split(':');
    if (controllers !== undefined && controllers.split(',').includes(controller)) return path.join(':');
  }
  return '/';
}

function writable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function makeParent(folder: string): string | undefined {
  try {
    const parent = join(folder, PARENT);
    mkdirSync(parent, { recursive: true });
    return writable(parent) ? parent : undefined;
  } catch {
    return undefined;
  }
}

function hostV1(mounts: readonly Mount[]): CgroupHost | undefined {
  const find = (controller: string): string | undefined => {
    const mount = mounts.find((each) => each.type === 'cgroup' && each.options.includes(controller));
    if (mount === undefined) return undefined;
    return makeParent(join(mount.point, ownPath(controller))) ?? makeParent(mount.point);
  };
  const memory = find('memory');
  const pids = find('pids');
  const cpu = find('cpu');
  const cpuacct = find('cpuacct');
  if (memory === undefined || pids === undefined) return undefined;
  return {
    version: 1,
    memory,
    pids,
    ...(cpu === undefined ? {} : { cpu }),
    ...(cpuacct === undefined ? {} : { cpuacct }),
  };
}

const hasBoth = (file: string): boolean => {
  const names = readFileSync(file, 'utf8').trim().split(' ');
  return names.includes('memory') && names.includes('pids');
};

/** Also delegates the `cpu` controller to the children of `folder`, if the machine's administrator allows it. */
function handOnCpu(folder: string): boolean {
  try {
    writeFileSync(join(folder, 'cgroup.subtree_control'), '+cpu');
    return true;
  } catch {
    return false;
  }
}

/**
 * Makes `folder/longhaul` and delegates both controllers to its children. Returns `undefined` if that is not allowed.
 */
function delegate(folder: string): string | undefined {
  try {
    const control = join(folder, 'cgroup.subtree_control');
    if (!hasBoth(control)) writeFileSync(control, '+memory +pids');
    const parent = makeParent(folder);
    if (parent === undefined || !hasBoth(join(parent, 'cgroup.controllers'))) return undefined;
    writeFileSync(join(parent, 'cgroup.subtree_control'), '+memory +pids');
    return parent;
  } catch {
    return undefined;
  }
}

function hostV2(mounts: readonly Mount[]): CgroupHost | undefined {
  const mount = mounts.find((each) => each.type === 'cgroup2');
  if (mount === undefined) return undefined;
  const steps = ownPath('').split('/').filter(Boolean);
  // A group that contains processes cannot delegate controllers: try this process's group, then the ones above.
  for (let depth = steps.length; depth >= 0; depth -= 1) {
    const parent = delegate(join(mount.point, ...steps.slice(0, depth)));
    if (parent === undefined) continue;
    const cpu = handOnCpu(join(parent, '..')) && handOnCpu(parent);
    return { version: 2, parent, ...(cpu ? { cpu: parent } : {}) };
  }
  return undefined;
}

/** Returns `undefined` if no group can be made. Then only resource limits (setrlimit) apply. */
export function findCgroupHost(): CgroupHost | undefined {
  try {
    const mounts = cgroupMounts();
    return hostV2(mounts) ?? hostV1(mounts);
  } catch {
    return undefined;
  }
}

/** The paths of the groups of one sandbox. They need not exist yet. */
export function cgroupsOf(host: CgroupHost, name: string): Cgroups {
  if (host.version === 2) {
    const folder = join(host.parent, name);
    return { folders: [folder], oomFile: join(folder, 'memory.events'), cpuFile: join(folder, 'cpu.stat') };
  }
  const memory = join(host.memory, name);
  // Controllers may share a hierarchy.
  const folders = new Set(
    [host.memory, host.pids, host.cpu ?? [], host.cpuacct ?? []].flat().map((parent) => join(parent, name)),
  );
  const cpuFile = host.cpuacct === undefined ? {} : { cpuFile: join(host.cpuacct, name, 'cpuacct.usage') };
  return { folders: [...folders], oomFile: join(memory, 'memory.oom_control'), ...cpuFile };
}

const PERIOD_US = 100_000;

function setIfThere(file: string, value: number | string): void {
  if (existsSync(file)) writeFileSync(file, String(value));
}

export function makeCgroups(groups: Cgroups, { memoryBytes, processes, cpus }: CgroupLimits): void {
  const quota = Math.max(1000, Math.round(cpus * PERIOD_US));
  for (const folder of groups.folders) {
    mkdirSync(folder, { recursive: true });
    setIfThere(join(folder, 'memory.max'), memoryBytes);
    setIfThere(join(folder, 'memory.swap.max'), 0);
    setIfThere(join(folder, 'memory.limit_in_bytes'), memoryBytes);
    setIfThere(join(folder, 'memory.memsw.limit_in_bytes'), memoryBytes);
    // Socket buffers: version 2 counts them as memory. The whole machine shares one limit (net.ipv4.tcp_mem).
    setIfThere(join(folder, 'memory.kmem.tcp.limit_in_bytes'), SOCKET_BYTES);
    setIfThere(join(folder, 'pids.max'), processes);
    setIfThere(join(folder, 'cpu.max'), `${quota} ${PERIOD_US}`);
    setIfThere(join(folder, 'cpu.cfs_period_us'), PERIOD_US);
    setIfThere(join(folder, 'cpu.cfs_quota_us'), quota);
  }
}

/** Pids of the processes in a group; empty if the group is gone. */
export function processesIn(folder: string): number[] {
  try {
    return readFileSync(join(folder, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** Removes a group whose processes have ended. The kernel may need a moment to notice that, so it retries. */
export async function removeCgroup(folder: string): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    try {
      rmdirSync(folder);
      return;
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code === 'ENOENT') return;
      if (code !== 'EBUSY') throw error;
    }
    await sleep(attempt < 20 ? 1 : 10);
  }
}
