/** A worker process's settings, read from its environment once, with every default in one place. */

import { availableParallelism, hostname, totalmem } from 'node:os';
import { join } from 'node:path';
import { UserInputError } from '../protocol/user-input-error.ts';
import { allowedEndpoints, allowedKeys, BadEntry } from '../endpoints/allowed-addresses.ts';
import { memoryOf } from '../sandboxes/leases.ts';
import { SNAPSHOT_MIB } from '../sandboxes/snapshot-archive.ts';
import { LIMITS } from '../tasks/swe-mini/problem.ts';
import { type GpuDuty, POOL_VARIABLE, readGpuDuty, readGpuPool } from './gpu-pool.ts';
import { stackHome } from '../connection/stack-paths.ts';
import { storeUrl } from '../connection/store-url.ts';

export const ROLES = ['orchestrator', 'init', 'agent-run', 'reward', 'gpu'] as const;
export type Role = (typeof ROLES)[number];

export const MIXED_ENGINES = 'LONGHAUL_MIXED_ENGINES';
export const MAX_SANDBOXES = 'LONGHAUL_MAX_SANDBOXES';
export const SANDBOX_MEMORY = 'LONGHAUL_SANDBOX_MEMORY';

export const SANDBOX_PROVIDERS = ['auto', 'bubblewrap', 'docker'] as const;

/** What isolates sandboxes on this host; every worker of the host must have the same settings. */
export interface SandboxSettings {
  readonly provider: (typeof SANDBOX_PROVIDERS)[number];
  /** Docker's base image; default: one that is built here. */
  readonly image?: string;
  /** Docker's OCI runtime, under its name in the daemon. */
  readonly runtime?: string;
  /** Sandboxes that are made ahead of requests; default: a few for providers whose sandboxes take long to make. */
  readonly warm?: number;
}

export interface WorkerSettings {
  /** `$LONGHAUL_HOME`: the stack's state, logs and store. */
  readonly home: string;
  /** URL. */
  readonly store: string;
  readonly sandboxDir: string;
  readonly sandbox: SandboxSettings;
  readonly host: string;
  readonly maxLiveSandboxes: number;
  /** MiB that the agents' sandboxes of the host may claim together. */
  readonly sandboxMemoryMiB: number;
  readonly sandboxTtlSeconds: number;
  /** Size of a snapshot of a task's sandboxes at most; 0: none is taken. */
  readonly snapshotMiB: number;
  /** What this GPU worker does, and what each worker of the pool does; `pool` is `undefined` if it is not set. */
  readonly gpu: { readonly does: GpuDuty; readonly pool: readonly GpuDuty[] | undefined };
  /** True if engines of any kind may make a run's products. */
  readonly mixedEngines: boolean;
  /** By role: the number of activities that run at once. */
  readonly slots: Readonly<Record<Role, number>>;
}

/** A whole number of the environment. Errors: `UserInputError` that names the variable, its value and what to give. */
export function count(
  name: string,
  fallback: number,
  least = 1,
  env: NodeJS.ProcessEnv = process.env,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const text = env[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  const upTo = most === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${most}`;
  throw new UserInputError(name, text, `give a whole number of at least ${least}${upTo}`);
}

/** Errors: `UserInputError` that names the variable, its value and what to give. */
export function readSandboxSettings(env: NodeJS.ProcessEnv = process.env): SandboxSettings {
  const text = env['LONGHAUL_SANDBOX'] || 'auto';
  const provider = SANDBOX_PROVIDERS.find((name) => name === text);
  if (provider === undefined)
    throw new UserInputError('LONGHAUL_SANDBOX', text, `give one of ${SANDBOX_PROVIDERS.join(', ')}`);
  const [image, runtime] = [env['LONGHAUL_DOCKER_IMAGE'], env['LONGHAUL_DOCKER_RUNTIME']];
  const warm = count('LONGHAUL_WARM_SANDBOXES', -1, 0, env);
  if (provider === 'bubblewrap')
    for (const [name, value] of Object.entries({ LONGHAUL_DOCKER_IMAGE: image, LONGHAUL_DOCKER_RUNTIME: runtime }))
      if (value)
        throw new UserInputError(name, value, 'it has no effect with LONGHAUL_SANDBOX=bubblewrap: unset one of them');
  return { provider, ...(image ? { image } : {}), ...(runtime ? { runtime } : {}), ...(warm < 0 ? {} : { warm }) };
}

/** Addresses and keys that a worker may use. Errors: `UserInputError` that names variable, value and remedy. */
export function readAllowedAddresses(env: NodeJS.ProcessEnv = process.env) {
  try {
    return { keys: allowedKeys(env), endpoints: allowedEndpoints(env) };
  } catch (error) {
    if (!(error instanceof BadEntry)) throw error;
    throw new UserInputError(error.variable, error.entry, error.remedy, { cause: error });
  }
}

/** A week: renewals are timers, and a timer's delay is less than a month. */
const LONGEST_TTL_SECONDS = 604_800;

const PER_CORE = 32;
/** The sandboxes' share of the memory that processes here may use; the rest is for the workers. */
const MEMORY_SHARE = 3 / 4;
/** The most memory that one sandbox of a usual size takes. */
const MIB_EACH = memoryOf({ limits: LIMITS });

/** The default number of live sandboxes: if all reach their limits, the host still has memory, so none is killed. */
export function sandboxesFor(cores: number, memoryBytes: number): number {
  return Math.max(1, Math.min(PER_CORE * cores, Math.floor((memoryBytes * MEMORY_SHARE) / (MIB_EACH * 2 ** 20))));
}

const memoryBytes = (): number => Math.min(totalmem(), process.constrainedMemory() || Infinity);

/**
 * `LONGHAUL_SANDBOX_MEMORY`, else the sandboxes' share of the memory. `LONGHAUL_MAX_SANDBOXES` alone allows as many
 * sandboxes of a usual size.
 */
export function readSandboxMemory(env: NodeJS.ProcessEnv = process.env): number {
  const share = Math.floor((memoryBytes() * MEMORY_SHARE) / 2 ** 20);
  return count(SANDBOX_MEMORY, Math.max(share, count(MAX_SANDBOXES, 1, 1, env) * MIB_EACH), 1, env);
}

/** `LONGHAUL_MAX_SANDBOXES`, else as many as cores and memory (of the machine, or of its control group) allow. */
export function readMaxLiveSandboxes(env: NodeJS.ProcessEnv = process.env): number {
  return count(MAX_SANDBOXES, sandboxesFor(availableParallelism(), memoryBytes()), 1, env);
}

/** `LONGHAUL_MIXED_ENGINES`: 1 or 0 (default). Errors: `UserInputError`. */
export function readMixedEngines(env: NodeJS.ProcessEnv): boolean {
  const text = env[MIXED_ENGINES] || '0';
  if (text === '0' || text === '1') return text === '1';
  throw new UserInputError(
    MIXED_ENGINES,
    text,
    "give 1 (engines of any kind make a run's products) or 0 (those of its own kind do)",
  );
}

/** An empty variable counts as not set. Errors: `UserInputError` for the first variable that cannot be used. */
export function readWorkerSettings(env: NodeJS.ProcessEnv = process.env): WorkerSettings {
  const home = stackHome(env);
  const cores = availableParallelism();
  const maxLiveSandboxes = readMaxLiveSandboxes(env);
  return {
    home,
    store: storeUrl(home, env),
    sandboxDir: join(home, 'sandboxes'),
    sandbox: readSandboxSettings(env),
    host: env['LONGHAUL_HOST'] || hostname(),
    maxLiveSandboxes,
    sandboxMemoryMiB: readSandboxMemory(env),
    sandboxTtlSeconds: count('LONGHAUL_SANDBOX_TTL', 1800, 1, env, LONGEST_TTL_SECONDS),
    snapshotMiB: count('LONGHAUL_SNAPSHOT_MIB', SNAPSHOT_MIB, 0, env),
    mixedEngines: readMixedEngines(env),
    gpu: { does: readGpuDuty(env), pool: env[POOL_VARIABLE] ? readGpuPool(env) : undefined },
    slots: {
      orchestrator: count('LONGHAUL_SLOTS_ORCHESTRATOR', 32, 1, env),
      init: count('LONGHAUL_SLOTS_INIT', 2 * cores, 1, env),
      // A slot per live sandbox: a turn that waits for a slot looks like a turn on a host that has died.
      'agent-run': count('LONGHAUL_SLOTS_AGENT_RUN', maxLiveSandboxes, 1, env),
      reward: count('LONGHAUL_SLOTS_REWARD', 2 * cores, 1, env),
      gpu: count('LONGHAUL_SLOTS_GPU', 256, 1, env),
    },
  };
}
