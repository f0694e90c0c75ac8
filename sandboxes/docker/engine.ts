/**
 * The Docker engine (or Podman behind the same API) of this host: queried once, with a deadline for every unary call,
 * and a class for every failure. Long streams have no deadline here; their readers set one.
 */

import { readFileSync } from 'node:fs';
import type Docker from 'dockerode';

import { SandboxImpossible, SandboxUnavailable } from '../sandbox.ts';

const CALL_DEADLINE_MS = 60_000;
const PING_DEADLINE_MS = 5_000;

export interface Engine {
  readonly docker: Docker;
  readonly version: string;
  /** The OCI runtimes that a container may use. */
  readonly runtimes: readonly string[];
  /** The runtime of containers that set none. */
  readonly defaultRuntime: string | undefined;
  /** True if the daemon's own filter of system calls is on. The supervisor's filter is always on. */
  readonly seccomp: boolean;
  readonly rootless: boolean;
  /** True if users inside containers are mapped to other users on the host. */
  readonly remapsUsers: boolean;
  readonly cgroupVersion: 1 | 2;
  /** True for Podman's service, some of whose requests and answers differ. */
  readonly podman: boolean;
  /** Limits that the daemon ignores without an error. */
  readonly unheld: readonly string[];
}

export const statusOf = (error: unknown): number | undefined =>
  error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
    ? error.statusCode
    : undefined;

/** Podman reports a name that is in use with another error than Docker. */
export const isNameTaken = (error: unknown): boolean =>
  statusOf(error) === 409 || (statusOf(error) === 500 && /name is already in use/iu.test(String(error)));

/** Podman treats an unknown id as an invalid name. */
export const lacksImage = (error: unknown): boolean =>
  statusOf(error) === 404 || (statusOf(error) === 500 && /cannot specify 64-byte hexadecimal/iu.test(String(error)));

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Errors: `SandboxUnavailable` after the deadline; those of `work`, unchanged. */
export async function within<T>(what: string, work: Promise<T>, deadlineMs: number = CALL_DEADLINE_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new SandboxUnavailable(`Docker did not answer within ${deadlineMs / 1000} s: ${what}`)),
      deadlineMs,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The class of a daemon's error. Status 400 means that the request can never succeed. */
export function classifyDocker(what: string, error: unknown): Error {
  if (error instanceof SandboxUnavailable || error instanceof SandboxImpossible) return error;
  const impossible = statusOf(error) === 400;
  const message = `${what}: ${reasonOf(error)}`;
  return impossible ? new SandboxImpossible(message) : new SandboxUnavailable(message);
}

interface Info {
  readonly ServerVersion?: string;
  readonly Runtimes?: Readonly<Record<string, unknown>>;
  readonly DefaultRuntime?: string;
  readonly SecurityOptions?: readonly string[];
  readonly CgroupVersion?: string;
  readonly MemoryLimit?: boolean;
  readonly PidsLimit?: boolean;
  readonly CpuCfsQuota?: boolean;
  /** Only Podman has this field and the next. */
  readonly BuildahVersion?: string;
  readonly Rootless?: boolean;
}

/** `holdsNone`: for rootless Podman with cgroup version 1 the fields report the machine's abilities, not Podman's. */
function unheldLimits({ MemoryLimit, PidsLimit, CpuCfsQuota }: Info, holdsNone: boolean): string[] {
  const held = { memory: MemoryLimit, processes: PidsLimit, processors: CpuCfsQuota };
  return Object.entries(held).flatMap(([name, holds]) => (holds === false || holdsNone ? [name] : []));
}

/** Why this daemon's containers cannot be sandboxes; `undefined` if they can. */
export const cannotLimit = ({ unheld }: Engine): string | undefined =>
  unheld.length === 0
    ? undefined
    : `it does not enforce limits on ${unheld.join(', ')}: run it as root, or use cgroup version 2 and delegate ` +
      'these controllers to its user';

/** Errors: `SandboxUnavailable` if no daemon answers. */
export async function openEngine(docker: Docker): Promise<Engine> {
  let info: Info;
  try {
    info = (await within('info', docker.info(), PING_DEADLINE_MS)) as Info;
  } catch (error) {
    throw new SandboxUnavailable(`no Docker daemon answers (start it, or set DOCKER_HOST): ${reasonOf(error)}`, {
      cause: error,
    });
  }
  const security = info.SecurityOptions ?? [];
  const has = (name: string): boolean => security.some((option) => option.split(',').includes(`name=${name}`));
  const podman = info.BuildahVersion !== undefined;
  const defaultRuntime = info.DefaultRuntime || undefined;
  const rootless = has('rootless') || info.Rootless === true;
  const cgroupVersion = info.CgroupVersion === '2' ? 2 : 1;
  return {
    docker,
    version: info.ServerVersion ?? 'unknown',
    // Podman lists all runtimes that it knows, installed or not, and always uses its default.
    runtimes: podman && defaultRuntime !== undefined ? [defaultRuntime] : Object.keys(info.Runtimes ?? {}),
    defaultRuntime,
    seccomp: has('seccomp'),
    rootless,
    remapsUsers: has('userns'),
    cgroupVersion,
    podman,
    unheld: unheldLimits(info, podman && rootless && cgroupVersion === 1),
  };
}

/**
 * The limit on a user's processes to set for each Podman container; `undefined`: none. Without it, Podman as root
 * requests 1,048,576. Without CAP_SYS_RESOURCE, it may not raise the limit that far, and no container would start.
 */
export function userProcessLimit(
  { podman, rootless }: Engine,
  limits = '/proc/self/limits',
  pidMax = '/proc/sys/kernel/pid_max',
): number | undefined {
  if (!podman || rootless) return undefined;
  const own = /^Max processes\s+\S+\s+(\d+)/mu.exec(readFileSync(limits, 'utf8'))?.[1];
  // Podman's service limits itself to the number of pids of the machine.
  return own === undefined ? undefined : Math.min(Number(own), Number(readFileSync(pidMax, 'utf8')));
}
