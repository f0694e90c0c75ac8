/**
 * What a sandbox's container may do: no network, no capability but those by which the supervisor becomes the policy's
 * user, nothing writable but what its profile says, and a limit on everything that can be counted.
 */

import type { ContainerCreateOptions, MountSettings } from 'dockerode';

import type { SandboxSpec } from '../sandbox.ts';
import { diskShares, filesIn } from '../supervised/disk.ts';
import { MOST_PSEUDO_TERMINALS, DEFAULT_CPUS } from '../supervised/spec.ts';

const MIB = 1 << 20;
const PAGE = 4096;
export const RUN_FOLDER = '/run/longhaul';
export const SUPERVISOR = '/run/longhaul-supervisor';
/** What the supervisor itself may hold: answers on their way to clients. */
const OWN_MEMORY = 16 * MIB;
/** The supervisor, and room for the moment in which one process becomes another. */
const OWN_PROCESSES = 3;
/** An attached connection is two processes, and its start some threads for a moment. */
const ATTACHED_PROCESSES = 16;
/** Of these, what must be free between two calls for a new connection to find room; the rest is taken by the present one. */
const ATTACH_RESERVE = 13;
/** Of the supervisor; what the policy runs may open fewer. */
const OPEN_FILES = 4096;
/** A kernel of the sandbox's own (gVisor) has threads and memory of its own, counted with what runs on it. */
const KERNEL_PROCESSES = 1024;
const KERNEL_MEMORY = 128 * MIB;
/** Socket, journal and log, where no folder of the host holds them. */
const RUN_BYTES = 64 * MIB;

export const LABEL = 'longhaul';
export const SCOPE_LABEL = 'longhaul.scope';
export const SANDBOX_LABEL = 'longhaul.sandbox';
export const CLAIM_LABEL = 'longhaul.claim';

/** How the supervisor's socket is reached: in a folder of the host, or by `docker exec`. */
export type Transport = 'socket' | 'exec';

export interface ContainerPlan {
  readonly name: string;
  /** Tells this container from a later one of the same name. */
  readonly claim: string;
  readonly scope: string;
  readonly image: string;
  readonly runtime: string | undefined;
  readonly transport: Transport;
  readonly ownKernel: boolean;
  /** Folder of the host that becomes `RUN_FOLDER` (transport `socket`). */
  readonly runFolder: string;
  readonly supervisorPath: string;
  /** Of the sandbox's processes, inside and outside of the container; their group is of the same number. */
  readonly uid: number;
  /** Files of the host in place of the container's own, which are not written. */
  readonly files: ReadonlyArray<readonly [source: string, target: string]>;
  /** The daemon's file system can bound what a container writes beside its mounts. */
  readonly quota: boolean;
  /** It is Podman's service that makes it. */
  readonly podman: boolean;
  /** Of the container's user on the whole host; `undefined`: the daemon's own. */
  readonly userProcesses: number | undefined;
}

/** System V's memory, which no killed process gives back: what fits into /dev/shm, and few queues and semaphores. */
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
  const share = diskShares(spec.limits.diskMiB);
  // Podman has no number of files to give, and would copy what the image has in the place.
  const files = (size: number): string => (plan.podman ? 'notmpcopyup' : `nr_inodes=${filesIn(size, spec.limits)}`);
  const common = (size: number): string => `rw,exec,nosuid,nodev,size=${size},${files(size)}`;
  const mounts: Record<string, string> = { '/tmp': `${common(share.tmp)},mode=1777` };
  // In place of the daemon's own, which has a size and no number of files.
  if (!plan.podman) mounts['/dev/shm'] = `rw,noexec,nosuid,nodev,size=${share.shm},${files(share.shm)},mode=1777`;
  if (spec.profile !== 'swe') mounts[spec.workdir] = `${common(share.workspace)},mode=0755`;
  // Under a read-only root Podman mounts one here that everybody may write to.
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

/** Of the supervisor alone, until it has given the workspace away; then it keeps those to become another user. */
const CAPABILITIES = ['CHOWN', 'SETGID', 'SETPCAP', 'SETUID'];

/** In place of the daemon's own, from which a container could take all of the machine's. Podman and other kernels have no such thing. */
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

/** Not as `Binds`, whose words a colon in a path would divide. */
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

/** Where the image's own files are writable, the workspace is on the host's disk. */
export const wantsQuota = ({ profile }: SandboxSpec): boolean => profile === 'swe';

function hostConfig(spec: SandboxSpec, plan: ContainerPlan): NonNullable<ContainerCreateOptions['HostConfig']> {
  return {
    NetworkMode: 'none',
    IpcMode: 'private',
    CapDrop: ['ALL'],
    CapAdd: CAPABILITIES,
    // The daemon's own filter of system calls stays on; the supervisor adds its own to what the policy runs.
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

/** The supervisor is pid 1 itself: it reaps, and no signal from inside reaches it. */
export function containerOptions(spec: SandboxSpec, plan: ContainerPlan): ContainerCreateOptions {
  const reserve = plan.transport === 'exec' ? ATTACH_RESERVE : 0;
  return {
    name: plan.name,
    Image: plan.image,
    Hostname: 'longhaul',
    User: '0:0',
    WorkingDir: '/',
    Entrypoint: [SUPERVISOR, 'contain', RUN_FOLDER, String(plan.uid), String(plan.uid), spec.workdir, String(reserve)],
    Cmd: [],
    Env: [],
    Tty: false,
    OpenStdin: false,
    // Each takes the other's word for a command.
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
