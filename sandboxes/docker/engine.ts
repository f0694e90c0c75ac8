/**
 * The Docker engine (or Podman behind the same API) of this host: found once, every unary call with a deadline, and
 * every failure with its class. A long stream never gets a deadline here: its owner has one.
 */

import { readFileSync } from 'node:fs';
import type Docker from 'dockerode';

import { SandboxImpossible, SandboxUnavailable } from '../sandbox.ts';

const CALL_DEADLINE_MS = 60_000;
const PING_DEADLINE_MS = 5_000;

export interface Engine {
  readonly docker: Docker;
  readonly version: string;
  /** Of which a container may name one. */
  readonly runtimes: readonly string[];
  /** Of containers that name none. */
  readonly defaultRuntime: string | undefined;
  /** The daemon's own filter of system calls is on; ours is on top of it in any case. */
  readonly seccomp: boolean;
  readonly rootless: boolean;
  /** Users inside of containers are others outside. */
  readonly remapsUsers: boolean;
  readonly cgroupVersion: 1 | 2;
  /** Podman's service, which takes and gives some things otherwise. */
  readonly podman: boolean;
  /** Limits that it leaves out without an error. */
  readonly unheld: readonly string[];
}

export const statusOf = (error: unknown): number | undefined =>
  error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
    ? error.statusCode
    : undefined;

/** Podman tells a name that another container has as an error of its own. */
export const isNameTaken = (error: unknown): boolean =>
  statusOf(error) === 409 || (statusOf(error) === 500 && /name is already in use/iu.test(String(error)));

/** To Podman an id that it does not know is a name that nothing may have. */
export const lacksImage = (error: unknown): boolean =>
  statusOf(error) === 404 || (statusOf(error) === 500 && /cannot specify 64-byte hexadecimal/iu.test(String(error)));

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Errors: `SandboxUnavailable` after the deadline; those of `work` as they are. */
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

/** The class of what the daemon refused: 400 says that the request itself can never be granted. */
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
  /** Podman's alone, as is the next. */
  readonly BuildahVersion?: string;
  readonly Rootless?: boolean;
}

/** Of Podman without root and without version 2 of control groups they say what the machine could. */
function unheldLimits({ MemoryLimit, PidsLimit, CpuCfsQuota }: Info, holdsNone: boolean): string[] {
  const held = { memory: MemoryLimit, processes: PidsLimit, processors: CpuCfsQuota };
  return Object.entries(held).flatMap(([name, holds]) => (holds === false || holdsNone ? [name] : []));
}

/** Why no container of it may be a sandbox; `undefined` where one may. */
export const cannotLimit = ({ unheld }: Engine): string | undefined =>
  unheld.length === 0
    ? undefined
    : `it holds containers to no limit of ${unheld.join(', ')}: without root it needs version 2 of control groups with these delegated to its user; or run it as root`;

/** Errors: `SandboxUnavailable` when no daemon answers. */
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
    // Podman lists what it knows by name, installed or not, and takes its default whatever a container names.
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
 * What Podman must be told about the number of a user's processes: that of all containers; `undefined`: nothing. As root it
 * asks for 1,048,576 where nobody says otherwise, which whoever may not raise a limit (no CAP_SYS_RESOURCE) does not get: no
 * container would start.
 */
export function userProcessLimit(
  { podman, rootless }: Engine,
  limits = '/proc/self/limits',
  pidMax = '/proc/sys/kernel/pid_max',
): number | undefined {
  if (!podman || rootless) return undefined;
  const own = /^Max processes\s+\S+\s+(\d+)/mu.exec(readFileSync(limits, 'utf8'))?.[1];
  // Podman's service holds itself to as many processes as the machine can number.
  return own === undefined ? undefined : Math.min(Number(own), Number(readFileSync(pidMax, 'utf8')));
}
