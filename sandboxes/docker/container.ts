/**
 * The options of a sandbox's container: no network but a loopback interface that several may share, only the
 * capabilities with which the supervisor becomes the policy's user, only the writable places of its profile, and a
 * limit on every resource that can be limited.
 */

import type { ContainerCreateOptions, MountSettings } from 'dockerode';

import type { SandboxSpec } from '../sandbox.ts';
import { diskShares, filesIn } from '../supervised/disk.ts';
import { MOST_PSEUDO_TERMINALS, DEFAULT_CPUS } from '../supervised/spec.ts';

const MIB = 1 << 20;
const PAGE = 4096;
export const RUN_FOLDER = '/run/longhaul';
export const SUPERVISOR = '/run/longhaul-supervisor';
/** Memory of the supervisor itself: answers that clients have not read yet. */
const OWN_MEMORY = 16 * MIB;
/** The supervisor, and room for the moment in which a process forks. */
const OWN_PROCESSES = 3;
/** An attached connection has two processes, and some threads for a moment at its start. */
const ATTACHED_PROCESSES = 16;
/** The part of them that must be free between two calls, for a new connection. The current connection uses the rest. */
const ATTACH_RESERVE = 13;
/** Open files of the supervisor. The policy's processes have a lower limit. */
const OPEN_FILES = 4096;
/** A sandbox's own kernel (gVisor) has threads and memory that count against the container's limits. */
const KERNEL_PROCESSES = 1024;
const KERNEL_MEMORY = 128 * MIB;
/** Size of the folder for socket, journal and log, if it is not a folder of the host. */
const RUN_BYTES = 64 * MIB;

export const LABEL = 'longhaul';
export const SCOPE_LABEL = 'longhaul.scope';
export const SANDBOX_LABEL = 'longhaul.sandbox';
export const CLAIM_LABEL = 'longhaul.claim';

/** How clients reach the supervisor's socket: in a folder of the host, or by `docker exec`. */
export type Transport = 'socket' | 'exec';

export interface ContainerPlan {
  readonly name: string;
  /** Distinguishes this container from a later one with the same name. */
  readonly claim: string;
  readonly scope: string;
  readonly image: string;
  readonly runtime: string | undefined;
  readonly transport: Transport;
  readonly ownKernel: boolean;
  /** Folder of the host that becomes `RUN_FOLDER` (transport `socket`). */
  readonly runFolder: string;
  readonly supervisorPath: string;
  /** User of the sandbox's processes, inside and outside the container. Their group has the same number. */
  readonly uid: number;
  /** Files and folders of the host that replace the container's own, read-only. */
  readonly files: ReadonlyArray<readonly [source: string, target: string]>;
  /** True if the daemon's file system can limit what a container writes outside its mounts. */
  readonly quota: boolean;
  /** True if Podman's service makes the container. */
  readonly podman: boolean;
  /** Limit on the processes of the container's user on the whole host; `undefined`: the daemon's default. */
  readonly userProcesses: number | undefined;
  /** Name of the container whose network this one joins; `undefined`: it has a loopback interface of its own. */
  readonly joins?: string | undefined;
}

/** Limits on System V memory, which outlives its processes: as much as /dev/shm, and few queues and semaphores. */
function sysctls(spec: SandboxSpec): Record<string, string> {
  const { shm } = diskShares(spec.limits.diskMiB);
  return {
    'kernel.shmall': String(Math.floor(shm / PAGE)),
    'kernel.shmmni': '64',
    'kernel.msgmni': '32',
    'kernel.sem': '250 32000 100 128',
  };
}

function tmpfs(spec: SandboxSpec, plan: ContainerPlan): Record<string, string> {
  const { folders = [] } = spec;
  const share = diskShares(spec.limits.diskMiB, folders.length);
  // Podman cannot limit the number of files, and would copy the image's files into the tmpfs.
  const files = (size: number): string => (plan.podman ? 'notmpcopyup' : `nr_inodes=${filesIn(size, spec.limits)}`);
  const common = (size: number): string => `rw,exec,nosuid,nodev,size=${size},${files(size)}`;
  const mounts: Record<string, string> = { '/tmp': `${common(share.tmp)},mode=1777` };
  // Replaces the daemon's own /dev/shm, which has no limit on the number of files.
  if (!plan.podman) mounts['/dev/shm'] = `rw,noexec,nosuid,nodev,size=${share.shm},${files(share.shm)},mode=1777`;
  if (spec.profile !== 'swe') mounts[spec.workdir] = `${common(share.workspace)},mode=0755`;
  // By its owner: a folder that the image has keeps the image's mode, whatever is given here.
  for (const folder of folders) mounts[folder] = `${common(share.folder)},uid=${plan.uid},gid=${plan.uid},mode=0755`;
  // With a read-only root, Podman would mount a /run that every user may write to.
  if (plan.podman && spec.profile !== 'swe') mounts['/run'] = 'rw,noexec,nosuid,nodev,size=65536,mode=0755,notmpcopyup';
  if (plan.transport === 'exec') mounts[RUN_FOLDER] = `rw,noexec,nosuid,nodev,size=${RUN_BYTES},mode=0700`;
  return mounts;
}

function limits(spec: SandboxSpec, plan: ContainerPlan) {
  const { memoryMiB, processes, diskMiB } = spec.limits;
  const attached = plan.transport === 'exec';
  const memory =
    (memoryMiB + diskMiB) * MIB + OWN_MEMORY + (attached ? RUN_BYTES : 0) + (plan.ownKernel ? KERNEL_MEMORY : 0);
  const own = OWN_PROCESSES + (attached ? ATTACHED_PROCESSES : 0) + (plan.ownKernel ? KERNEL_PROCESSES : 0);
  return {
    Memory: memory,
    MemorySwap: memory,
    PidsLimit: processes + own,
    NanoCpus: Math.round((spec.cpus ?? DEFAULT_CPUS) * 1e9),
    ShmSize: diskShares(diskMiB).shm,
    Ulimits: [
      { Name: 'core', Soft: 0, Hard: 0 },
      { Name: 'nofile', Soft: OPEN_FILES, Hard: OPEN_FILES },
      ...(plan.userProcesses === undefined
        ? []
        : [{ Name: 'nproc', Soft: plan.userProcesses, Hard: plan.userProcesses }]),
    ],
  };
}

/** Of the supervisor only. After it has given the workspace to the policy's user, it keeps only SETGID and SETUID. */
const CAPABILITIES = ['CHOWN', 'SETGID', 'SETPCAP', 'SETUID'];

/**
 * Replaces the daemon's own devpts, with which a container could use up all pseudo-terminals of the machine. Podman and
 * other kernels do not support it.
 */
const PSEUDO_TERMINALS: MountSettings = {
  Type: 'volume',
  Source: '',
  Target: '/dev/pts',
  VolumeOptions: {
    NoCopy: true,
    Labels: {},
    DriverConfig: {
      Name: 'local',
      Options: {
        type: 'devpts',
        device: 'devpts',
        o: `nosuid,noexec,ptmxmode=0666,mode=0620,max=${MOST_PSEUDO_TERMINALS}`,
      },
    },
  },
};

/** As `Mounts`, not `Binds`: `Binds` cannot hold a path with a colon. */
function mounts({ supervisorPath, files, transport, runFolder, podman, ownKernel }: ContainerPlan): MountSettings[] {
  const ours = [[supervisorPath, SUPERVISOR] as const, ...files].map(([Source, Target]): MountSettings => ({
    Type: 'bind',
    Source,
    Target,
    ReadOnly: true,
  }));
  const run: MountSettings[] =
    transport === 'socket' ? [{ Type: 'bind', Source: runFolder, Target: RUN_FOLDER, ReadOnly: false }] : [];
  return [...ours, ...run, ...(podman || ownKernel ? [] : [PSEUDO_TERMINALS])];
}

/** True if the image's own files are writable: the workspace is then on the host's disk. */
export const wantsQuota = ({ profile }: SandboxSpec): boolean => profile === 'swe';

function hostConfig(spec: SandboxSpec, plan: ContainerPlan): NonNullable<ContainerCreateOptions['HostConfig']> {
  return {
    NetworkMode: plan.joins === undefined ? 'none' : `container:${plan.joins}`,
    IpcMode: 'private',
    CapDrop: ['ALL'],
    CapAdd: CAPABILITIES,
    // The daemon's own filter of system calls stays on. The supervisor adds its own for the policy's processes.
    SecurityOpt: ['no-new-privileges'],
    ReadonlyRootfs: spec.profile !== 'swe',
    Tmpfs: tmpfs(spec, plan),
    Mounts: mounts(plan),
    AutoRemove: false,
    RestartPolicy: { Name: 'no' },
    LogConfig: { Type: 'json-file', Config: { 'max-size': '1m' } },
    ...limits(spec, plan),
    ...(plan.ownKernel ? {} : { Sysctls: sysctls(spec) }),
    ...(wantsQuota(spec) && plan.quota ? { StorageOpt: { size: `${spec.limits.diskMiB}M` } } : {}),
    ...(plan.runtime === undefined ? {} : { Runtime: plan.runtime }),
  };
}

/** The supervisor is pid 1: it reaps processes, and signals from inside do not reach it. */
export function containerOptions(spec: SandboxSpec, plan: ContainerPlan): ContainerCreateOptions {
  const reserve = plan.transport === 'exec' ? ATTACH_RESERVE : 0;
  return {
    name: plan.name,
    Image: plan.image,
    // Who joins a network has its first container's name.
    ...(plan.joins === undefined ? { Hostname: 'longhaul' } : {}),
    User: '0:0',
    WorkingDir: '/',
    Entrypoint: [SUPERVISOR, 'contain', RUN_FOLDER, String(plan.uid), String(plan.uid), spec.workdir, String(reserve)],
    Cmd: [],
    Env: [],
    Tty: false,
    OpenStdin: false,
    // Docker and Podman would each run the other's keyword as a command.
    Healthcheck: { Test: [plan.podman ? 'none' : 'NONE'] },
    Labels: {
      [LABEL]: 'sandbox',
      [SCOPE_LABEL]: plan.scope,
      [SANDBOX_LABEL]: spec.id,
      [CLAIM_LABEL]: plan.claim,
      'longhaul.created': new Date().toISOString(),
      'longhaul.ttl': String(spec.ttlSeconds),
    },
    HostConfig: hostConfig(spec, plan),
  };
}
