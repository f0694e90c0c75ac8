/** Checks a sandbox's spec, before anything is made, and converts it to the supervisor's spec. */

import { isAbsolute, normalize } from 'node:path';

import { SandboxImpossible, type SandboxSpec } from '../sandbox.ts';
import type { SupervisorSpec } from '../supervisor/client.ts';

const MIB = 1 << 20;
const OPEN_FILES = 1024;
const MOST_FOLDERS = 8;
/** Processors of a sandbox whose spec sets none. */
export const DEFAULT_CPUS = 1;

/** Errors: `SandboxImpossible` with the field, its value and what is allowed. */
export function checkSpec(spec: SandboxSpec): void {
  const { workdir, limits } = spec;
  const top = workdir.split('/')[1] ?? '';
  const reserved = ['', 'usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'etc', 'proc', 'dev', 'run', 'sys'];
  if (!isAbsolute(workdir) || normalize(workdir) !== workdir || reserved.includes(top))
    throw new SandboxImpossible(
      `workdir ${workdir}: must be an absolute path outside the system's folders, such as /workspace`,
    );
  for (const folder of spec.folders ?? []) {
    const name = folder.slice(1);
    if (!/^\/[\w.-]+$/u.test(folder) || /^\.+$/u.test(name) || [...reserved, 'tmp', 'root', top].includes(name))
      throw new SandboxImpossible(
        `folders ${folder}: must be a folder at the top level outside the system's folders and workdir, such as /tests`,
      );
  }
  if (new Set(spec.folders).size !== (spec.folders ?? []).length || (spec.folders ?? []).length > MOST_FOLDERS)
    throw new SandboxImpossible(`folders ${spec.folders?.join(', ')}: name each once, at most ${MOST_FOLDERS}`);
  for (const [name, value] of Object.entries(limits))
    if (!Number.isInteger(value) || value < 1)
      throw new SandboxImpossible(`limits.${name} ${value}: must be a positive integer`);
  if (spec.image !== undefined && !/^[a-z0-9][\w./:@-]*$/iu.test(spec.image))
    throw new SandboxImpossible(
      `image ${spec.image}: must be an image reference, such as registry.example/name:tag or name@sha256:...`,
    );
  if (spec.cpus !== undefined && !(spec.cpus > 0)) throw new SandboxImpossible(`cpus ${spec.cpus}: must be positive`);
  if (spec.setUpSeconds !== undefined && !(spec.setUpSeconds > 0))
    throw new SandboxImpossible(`setUpSeconds ${spec.setUpSeconds}: must be positive`);
  if (!(spec.ttlSeconds > 0)) throw new SandboxImpossible(`ttlSeconds ${spec.ttlSeconds}: must be positive`);
}

/** Errors: `SandboxImpossible` if the spec sets one of `fields`, which this kind of sandbox does not support. */
export function refuseUnlessDefault(
  spec: SandboxSpec,
  kind: string,
  fields: ReadonlyArray<'image' | 'build' | 'profile' | 'cpus'>,
): void {
  for (const field of fields) {
    const value = spec[field];
    if (value !== undefined)
      throw new SandboxImpossible(
        `${field} ${typeof value === 'object' ? value.dockerfile : value}: not supported by ${kind}; ` +
          'remove it, or use the docker provider',
      );
  }
}

/** Limits that hold for the sandbox as a whole, so that the supervisor need not set them for each process. */
export interface HostLimits {
  readonly memory: boolean;
  /** True if a control group counts the processes, or if the user also has processes outside the sandbox. */
  readonly processes: boolean;
  /** The sandbox's PATH. */
  readonly path: string;
}

export function supervisorSpec(spec: SandboxSpec, whole: HostLimits): SupervisorSpec {
  return {
    workdir: spec.workdir,
    ttlMs: Math.ceil(spec.ttlSeconds * 1000),
    openFiles: OPEN_FILES,
    fileBytes: spec.limits.diskMiB * MIB,
    // The supervisor is a process of the same user.
    processes: whole.processes ? 0 : spec.limits.processes + 1,
    addressBytes: whole.memory ? 0 : spec.limits.memoryMiB * MIB,
    env: sandboxEnvironment(whole.path, spec.env),
    files: spec.files.map((file) => ({ path: file.path, mode: file.mode ?? 0o644, content: file.content })),
  };
}

/** The variables of every sandbox: equal at every start and with every provider. */
const fixed: Readonly<Record<string, string>> = {
  PATH: '/usr/bin:/bin',
  HOME: '/tmp/home',
  USER: 'agent',
  LOGNAME: 'agent',
  SHELL: '/bin/bash',
  TERM: 'dumb',
  TZ: 'UTC',
  LANG: 'C.UTF-8',
  LC_ALL: 'C.UTF-8',
  PYTHONHASHSEED: '0',
  PYTHONDONTWRITEBYTECODE: '1',
  GIT_PAGER: 'cat',
  PAGER: 'cat',
};

/** `KEY=VALUE` strings; the task's own variables come last. */
function sandboxEnvironment(path: string, own: Readonly<Record<string, string>>): string[] {
  return Object.entries({ ...fixed, PATH: path, ...own }).map(([key, value]) => `${key}=${value}`);
}

// Resources that the whole machine shares, and the part of them that one sandbox may take.
/** Of the machine's 4,096 (`kernel.pty.max`): the size of the sandbox's own instance of devpts. */
export const MOST_PSEUDO_TERMINALS = 16;

/**
 * Bytes of socket buffers, of the machine's some hundred MiB (`net.ipv4.tcp_mem`, in pages), if they do not count as
 * the sandbox's memory.
 */
export const SOCKET_BYTES = 16 << 20;
