/** Which processes make up the stack on this machine, from the environment alone. */

import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheDirectory } from '#setup/paths.mjs';
import { findTemporal } from '#setup/temporal.mjs';
import { gpuDevices } from '../gpu-devices.ts';
import { DUTY_VARIABLE, type GpuWorkerPlan, planGpuPool, POOL_VARIABLE } from '../gpu-pool.ts';
import { type Role, ROLES } from '../settings.ts';
import { chooseCluster } from './choose-cluster.ts';
import type { Command } from './processes/process-spec.ts';
import { Unreachable } from './unreachable.ts';

export interface StackPlan {
  readonly namespace: string;
  /** The server's program where the stack runs its own, else the address of the existing cluster. */
  readonly cluster: { readonly program: string } | { readonly address: string };
  /** Everything but the server, for a server at this address; `{}` leaves Temporal's own settings as inherited. */
  readonly workers: (temporal: Readonly<Record<string, string>>) => Command[];
}

/** `$LONGHAUL_ROLES` (comma-separated) limits the roles that run here. Errors: `Unreachable` without a server program. */
export function stackPlan(env: NodeJS.ProcessEnv = process.env): StackPlan {
  const cluster = chooseCluster(env);
  return {
    namespace: cluster.namespace,
    cluster: cluster.kind === 'existing' ? { address: cluster.address } : { program: serverProgram(env) },
    workers: (temporal) => commandsOf(env, temporal),
  };
}

/** Errors: `Unreachable` when no server program is installed. */
export function serverProgram(env: NodeJS.ProcessEnv): string {
  const found = findTemporal(cacheDirectory(env), env);
  if (found === undefined) throw new Unreachable("Temporal's server program", 'Run: npm run setup');
  return found.path;
}

/** Errors: a `TypeError` that names a role which does not exist. */
export function wantedRoles(env: NodeJS.ProcessEnv): readonly Role[] {
  const text = env['LONGHAUL_ROLES'];
  if (text === undefined || text === '') return ROLES;
  return text.split(',').map((name) => {
    const role = ROLES.find((one) => one === name.trim());
    if (role !== undefined) return role;
    throw new TypeError(`LONGHAUL_ROLES: ${JSON.stringify(name)} cannot be used; give some of ${ROLES.join(',')}`);
  });
}

/** Errors: a `TypeError` for a pool that this machine cannot have. */
export function gpuWorkers(env: NodeJS.ProcessEnv): GpuWorkerPlan[] {
  return planGpuPool(env, { devices: gpuDevices(env), cores: availableParallelism() });
}

function commandsOf(env: NodeJS.ProcessEnv, temporal: Readonly<Record<string, string>>): Command[] {
  const roles = wantedRoles(env);
  const pool = roles.includes('gpu') ? gpuWorkers(env) : [];
  // Of workers elsewhere nothing is known.
  const known = pool.length > 0 ? { [POOL_VARIABLE]: pool.map(({ does }) => does).join(',') } : {};
  return roles.flatMap((role) => {
    if (role === 'gpu') return pool.map((plan) => gpuCommand(plan, pool.length, env, { ...temporal, ...known }));
    return [workerCommand(role, env, role === 'orchestrator' ? { ...temporal, ...known } : temporal)];
  });
}

/** TensorFlow takes every core for each op, unless it is told; `env` may say otherwise by TensorFlow's own variable. */
function gpuCommand({ name, does, device, threads }: GpuWorkerPlan, size: number, env: NodeJS.ProcessEnv, common: Readonly<Record<string, string>>): Command {
  const ops = env['TF_NUM_INTRAOP_THREADS'] ?? String(threads);
  const visible: Readonly<Record<string, string>> = device === undefined ? {} : { CUDA_VISIBLE_DEVICES: device };
  const command = workerCommand('gpu', env, { ...common, TF_NUM_INTRAOP_THREADS: ops, [DUTY_VARIABLE]: does, ...visible });
  if (size === 1) return command;
  const note = `${does === 'both' ? 'samples and trains' : does === 'train' ? 'trains' : 'samples'}, ${device === undefined ? `${ops} threads an op` : `device ${device}`}`;
  return { ...command, name, note };
}

const moduleUrl = (name: string): URL => new URL(`../${name}${extname(import.meta.filename)}`, import.meta.url);

/** What Node loads first: `$LONGHAUL_CALL_STACKS=1` keeps the stack traces that workflows run without. */
function preloadsOf(role: Role, env: NodeJS.ProcessEnv): string[] {
  const without = role === 'orchestrator' && env['LONGHAUL_CALL_STACKS'] !== '1';
  return without ? ['--import', moduleUrl('roles/without-call-stacks').href] : [];
}

function workerCommand(role: Role, inherited: NodeJS.ProcessEnv, env: Readonly<Record<string, string>>): Command {
  const args = [...preloadsOf(role, inherited), fileURLToPath(moduleUrl('main')), '--role', role];
  return { name: role, command: process.execPath, args, env };
}
