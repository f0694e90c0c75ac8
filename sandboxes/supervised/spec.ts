/** From a sandbox's spec to what its supervisor is given; a spec that cannot be is refused before anything is made. */

import { isAbsolute, normalize } from 'node:path';

import { SandboxImpossible, type SandboxSpec } from '../sandbox.ts';
import type { SupervisorSpec } from '../supervisor/client.ts';

const MIB = 1 << 20;
const OPEN_FILES = 1024;
/** Processors of a sandbox that does not say how many. */
export const DEFAULT_CPUS = 1;

/** Errors: `SandboxImpossible` that names the field, its value and what to give. */
export function checkSpec(spec: SandboxSpec): void {
  const { workdir, limits } = spec;
  const top = workdir.split('/')[1] ?? '';
  const reserved = ['', 'usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'etc', 'proc', 'dev', 'run', 'sys'];
  if (!isAbsolute(workdir) || normalize(workdir) !== workdir || reserved.includes(top))
    throw new SandboxImpossible(
      `workdir ${workdir}: must be an absolute path outside of the system's folders, like /workspace`,
    );
  for (const [name, value] of Object.entries(limits))
    if (!Number.isInteger(value) || value < 1)
      throw new SandboxImpossible(`limits.${name} ${value}: must be a positive integer`);
  if (spec.image !== undefined && !/^[a-z0-9][\w./:@-]*$/iu.test(spec.image))
    throw new SandboxImpossible(
      `image ${spec.image}: must be a reference, like registry.example/name:tag or name@sha256:...`,
    );
  if (spec.cpus !== undefined && !(spec.cpus > 0)) throw new SandboxImpossible(`cpus ${spec.cpus}: must be positive`);
  if (!(spec.ttlSeconds > 0)) throw new SandboxImpossible(`ttlSeconds ${spec.ttlSeconds}: must be positive`);
}

/** Errors: `SandboxImpossible` when a field is given that a kind of sandbox has no meaning for. */
export function refuseUnlessDefault(
  spec: SandboxSpec,
  kind: string,
  fields: ReadonlyArray<'image' | 'profile' | 'cpus'>,
): void {
  for (const field of fields) {
    const value = spec[field];
    if (value !== undefined)
      throw new SandboxImpossible(
        `${field} ${value}: has no meaning in ${kind}; leave it out, or use the provider docker`,
      );
  }
}

/** What holds for the sandbox as a whole, and so need not hold for each process. */
export interface HostLimits {
  readonly memory: boolean;
  /** The processes of its user are not its own alone, or are counted by a group. */
  readonly processes: boolean;
  /** Where programs are found. */
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

/** The variables of every sandbox: the same world at every start and with every provider. */
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

// What a machine has one number of for everybody, and how much of it a sandbox may take.
/** Of 4,096 (`kernel.pty.max`): all of the sandbox's own instance. */
export const MOST_PSEUDO_TERMINALS = 16;

/** Buffers of its sockets, of some hundreds of MiB (`net.ipv4.tcp_mem`, in pages): where they do not count as its memory. */
export const SOCKET_BYTES = 16 << 20;
