/** The processes of the stack on this machine, derived from the environment. */

import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findEngine, NotSetUp } from '#setup/engine/engine-package.mjs';
import { cacheDirectory, packageRoot } from '#setup/paths.mjs';
import { findTemporal } from '#setup/temporal/temporal.mjs';
import { gpuDevices } from '../workers/gpu-devices.ts';
import { DUTY_VARIABLE, type GpuWorkerPlan, planGpuPool, POOL_VARIABLE } from '../workers/gpu-pool.ts';
import type { Role } from '../workers/settings.ts';
import { readRetention } from './temporal-server/retention.ts';
import { chooseCluster } from './choose-cluster.ts';
import type { Command } from './processes/process-spec.ts';
import { kept, settingsOfWorkers, stackSettings, wantedRoles } from './stack-settings.ts';
import type { StackSettings } from '../connection/stack-state.ts';
import { Unreachable } from '../connection/unreachable.ts';

export interface StackPlan {
  readonly namespace: string;
  /** The server's program if the stack runs its own, else the address of the existing cluster. */
  readonly cluster: { readonly program: string } | { readonly address: string };
  readonly settings: StackSettings;
  /** How long the stack's own server keeps histories of closed workflows. */
  readonly retentionHours: number;
  /** All processes except the server. `temporal`: variables that name the server; `{}` keeps the inherited ones. */
  readonly workers: (temporal: Readonly<Record<string, string>>) => Command[];
}

/**
 * `$LONGHAUL_ROLES` (comma-separated) limits the roles that run here. Errors: `Unreachable` without a server program;
 * `UserInputError` for settings that cannot be used.
 */
export function stackPlan(env: NodeJS.ProcessEnv = process.env): StackPlan {
  const cluster = chooseCluster(env);
  const roles = wantedRoles(env);
  const pool = roles.includes('gpu') ? gpuWorkers(env) : [];
  // The GPU workers of other machines are unknown.
  const known = pool.length > 0 ? { [POOL_VARIABLE]: pool.map(({ does }) => does).join(',') } : {};
  const settings = { ...kept(stackSettings(env, process.cwd())), ...known };
  return {
    namespace: cluster.namespace,
    cluster: cluster.kind === 'existing' ? { address: cluster.address } : { program: serverProgram(env) },
    settings,
    retentionHours: readRetention(env),
    workers: (temporal) => commandsOf(env, { roles, pool, known }, { ...settingsOfWorkers(settings), ...temporal }),
  };
}

/** Errors: `Unreachable` if no server program is installed. */
export function serverProgram(env: NodeJS.ProcessEnv): string {
  const found = findTemporal(cacheDirectory(env), env);
  if (found === undefined) throw new Unreachable("Temporal's server program", 'Run: npx longhaul setup');
  return found.path;
}

/** Errors: `NotSetUp` if a worker here needs the engine and it is missing. */
export function checkEngine(env: NodeJS.ProcessEnv): void {
  if (wantedRoles(env).includes('gpu') && findEngine(packageRoot, cacheDirectory(env)) === undefined)
    throw new NotSetUp('the engine');
}

/** Errors: `UserInputError` for a pool that this machine cannot have. */
export function gpuWorkers(env: NodeJS.ProcessEnv): GpuWorkerPlan[] {
  return planGpuPool(env, { devices: gpuDevices(env), cores: availableParallelism() });
}

interface Wanted {
  readonly roles: readonly Role[];
  readonly pool: readonly GpuWorkerPlan[];
  /** The pool's variable, for the processes that need it. */
  readonly known: Readonly<Record<string, string>>;
}

function commandsOf(
  env: NodeJS.ProcessEnv,
  { roles, pool, known }: Wanted,
  common: Readonly<Record<string, string>>,
): Command[] {
  return roles.flatMap((role) => {
    if (role === 'gpu') return pool.map((plan) => gpuCommand(plan, pool.length, env, { ...common, ...known }));
    return [workerCommand(role, env, { ...common, ...(role === 'orchestrator' ? known : {}), ...fewArenas(env) })];
  });
}

/** Limits the threads of TensorFlow's ops, which by default use every core; its variable in `env` takes precedence. */
function gpuCommand(
  { name, does, device, threads }: GpuWorkerPlan,
  size: number,
  env: NodeJS.ProcessEnv,
  common: Readonly<Record<string, string>>,
): Command {
  const ops = env['TF_NUM_INTRAOP_THREADS'] ?? String(threads);
  const visible: Readonly<Record<string, string>> = device === undefined ? {} : { CUDA_VISIBLE_DEVICES: device };
  const command = workerCommand('gpu', env, {
    ...common,
    ...fewArenas(env),
    TF_NUM_INTRAOP_THREADS: ops,
    [DUTY_VARIABLE]: does,
    ...visible,
  });
  if (size === 1) return command;
  const note =
    `${does === 'both' ? 'samples and trains' : does === 'train' ? 'trains' : 'samples'}, ` +
    `${device === undefined ? `${ops} threads an op` : `device ${device}`}`;
  return { ...command, name, note };
}

const moduleUrl = (name: string): URL => new URL(`../workers/${name}${extname(import.meta.filename)}`, import.meta.url);

/**
 * Ended workflows are garbage. By default V8 lets the old space grow to several times its live size before it collects,
 * and each thread's young space to 128 MB after a long time: memory would grow with the run's length. A limit of a
 * quarter above the live size is reached soon, and 16 MB of young objects cost no more time.
 */
const SMALL_HEAP = ['--heap-growing-percent=25', '--max-semi-space-size=8'];

/** glibc gives each thread an arena, whose memory is rarely returned: limits their number; `env` takes precedence. */
function fewArenas({ MALLOC_ARENA_MAX = '2' }: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  return { MALLOC_ARENA_MAX };
}

/**
 * Workers that read the output of commands allocate much and keep little. With Node's initial limits of 20 MB they
 * marked their heaps every few seconds, which was a quarter of the processor time of init and agent-run. The live size
 * is some 30 MB: garbage may grow to twice that before it is collected, in the young space and in the old one.
 */
const ROOMY_HEAP = [
  '--initial-old-space-size=96',
  '--heap-growing-percent=100',
  '--min-semi-space-size=16',
  '--max-semi-space-size=16',
];
const READS_COMMANDS: readonly Role[] = ['init', 'agent-run', 'reward'];

/** Node's options where workflows run, which drop stack traces of promises; `$LONGHAUL_CALL_STACKS=1` keeps those. */
export function workflowThreadOptions(env: NodeJS.ProcessEnv): string[] {
  return env['LONGHAUL_CALL_STACKS'] === '1' ? [] : ['--import', moduleUrl('roles/without-call-stacks').href];
}

function nodeOptionsOf(role: Role, env: NodeJS.ProcessEnv): string[] {
  if (READS_COMMANDS.includes(role)) return ROOMY_HEAP;
  return role === 'orchestrator' ? [...SMALL_HEAP, ...workflowThreadOptions(env)] : [];
}

function workerCommand(role: Role, inherited: NodeJS.ProcessEnv, env: Readonly<Record<string, string>>): Command {
  const args = [...nodeOptionsOf(role, inherited), fileURLToPath(moduleUrl('main')), '--role', role];
  return { name: role, command: process.execPath, args, env };
}
