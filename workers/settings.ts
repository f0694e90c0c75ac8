/** What a worker process takes from its environment: one reading, with every default in one place. */

import { availableParallelism, hostname, totalmem } from 'node:os';
import { join } from 'node:path';
import { UserInputError } from '../protocol/user-input-error.ts';
import { allowedEndpoints, allowedKeys, BadEntry } from '../endpoints/allowed-addresses.ts';
import { LIMITS } from '../tasks/swe-mini/problem.ts';
import { type GpuDuty, POOL_VARIABLE, readGpuDuty, readGpuPool } from './gpu-pool.ts';
import { stackHome } from '../connection/stack-paths.ts';

export const ROLES = ['orchestrator', 'init', 'agent-run', 'reward', 'gpu'] as const;
export type Role = (typeof ROLES)[number];

export const MAX_SANDBOXES = 'LONGHAUL_MAX_SANDBOXES';

export const SANDBOX_PROVIDERS = ['auto', 'bubblewrap', 'docker'] as const;

/** What isolates sandboxes on this host; every worker of the host must be told the same. */
export interface SandboxSettings {
  readonly provider: (typeof SANDBOX_PROVIDERS)[number];
  /** Docker's base image; default: one that is made here. */
  readonly image?: string;
  /** Docker's OCI runtime, by the daemon's name for it. */
  readonly runtime?: string;
  /** Sandboxes that stand ready before they are asked for; default: some where a sandbox takes long to make. */
  readonly warm?: number;
}

export interface WorkerSettings {
  /** `$LONGHAUL_HOME`: the stack's state, logs and store. */
  readonly home: string;
  readonly storeDir: string;
  readonly sandboxDir: string;
  readonly sandbox: SandboxSettings;
  readonly host: string;
  readonly maxLiveSandboxes: number;
  readonly sandboxTtlSeconds: number;
  /** What a GPU worker does, and what all of the pool do; `undefined` where nobody has said. */
  readonly gpu: { readonly does: GpuDuty; readonly pool: readonly GpuDuty[] | undefined };
  /** Activities of this role that run at once. */
  readonly slots: Readonly<Record<Role, number>>;
}

/** Errors: `UserInputError` that names the variable, its value and what to give. */
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

/** What a worker may send to whom. Errors: `UserInputError` that names the variable, its value and what to give. */
export function readAllowedAddresses(env: NodeJS.ProcessEnv = process.env) {
  try {
    return { keys: allowedKeys(env), endpoints: allowedEndpoints(env) };
  } catch (error) {
    if (!(error instanceof BadEntry)) throw error;
    throw new UserInputError(error.variable, error.entry, error.remedy, { cause: error });
  }
}

/** A week: its renewals are timers, which hold less than a month. */
const LONGEST_TTL_SECONDS = 604_800;

const PER_CORE = 32;
/** Of the memory that processes here may use; the rest is the workers'. */
const MEMORY_SHARE = 3 / 4;
/** What one sandbox may take at most: its limits, and what its supervisor holds. */
const MIB_EACH = LIMITS.memoryMiB + LIMITS.diskMiB + 16;

/** Sandboxes at once, unless it is said otherwise: all may be at their limits, and none is killed for the host's want of memory. */
export function sandboxesFor(cores: number, memoryBytes: number): number {
  return Math.max(1, Math.min(PER_CORE * cores, Math.floor((memoryBytes * MEMORY_SHARE) / (MIB_EACH * 2 ** 20))));
}

/** `LONGHAUL_MAX_SANDBOXES`, else as many as cores and memory (the machine's, or its control group's) allow. */
export function readMaxLiveSandboxes(env: NodeJS.ProcessEnv = process.env): number {
  const memory = Math.min(totalmem(), process.constrainedMemory() || Infinity);
  return count(MAX_SANDBOXES, sandboxesFor(availableParallelism(), memory), 1, env);
}

/** What is empty is not said. Errors: `UserInputError` for the first variable that cannot be used. */
export function readWorkerSettings(env: NodeJS.ProcessEnv = process.env): WorkerSettings {
  const home = stackHome(env);
  const cores = availableParallelism();
  const maxLiveSandboxes = readMaxLiveSandboxes(env);
  return {
    home,
    storeDir: join(home, 'store'),
    sandboxDir: join(home, 'sandboxes'),
    sandbox: readSandboxSettings(env),
    host: env['LONGHAUL_HOST'] || hostname(),
    maxLiveSandboxes,
    sandboxTtlSeconds: count('LONGHAUL_SANDBOX_TTL', 1800, 1, env, LONGEST_TTL_SECONDS),
    gpu: { does: readGpuDuty(env), pool: env[POOL_VARIABLE] ? readGpuPool(env) : undefined },
    slots: {
      orchestrator: count('LONGHAUL_SLOTS_ORCHESTRATOR', 32, 1, env),
      init: count('LONGHAUL_SLOTS_INIT', 2 * cores, 1, env),
      // A slot per live sandbox: a turn that waits for a slot looks like one on a host that has died.
      'agent-run': count('LONGHAUL_SLOTS_AGENT_RUN', maxLiveSandboxes, 1, env),
      reward: count('LONGHAUL_SLOTS_REWARD', 2 * cores, 1, env),
      gpu: count('LONGHAUL_SLOTS_GPU', 256, 1, env),
    },
  };
}
