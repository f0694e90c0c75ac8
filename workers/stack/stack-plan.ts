/** Which processes make up the stack on this machine, from the environment alone. */

import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheDirectory } from '#setup/paths.mjs';
import { findTemporal } from '#setup/temporal.mjs';
import { type Role, ROLES } from '../settings.ts';
import { chooseCluster } from './choose-cluster.ts';
import type { Command } from './process-spec.ts';
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
    workers: (temporal) => wantedRoles(env).map((role) => workerCommand(role, env, { ...temporal, ...(role === 'gpu' ? engineThreads(env) : {}) })),
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

/**
 * TensorFlow takes every core for each op; in the stack, Temporal, tools and graders need half of them. `env` may say
 * otherwise by TensorFlow's own variable.
 */
function engineThreads(env: NodeJS.ProcessEnv): Record<string, string> {
  const name = 'TF_NUM_INTRAOP_THREADS';
  return { [name]: env[name] ?? String(Math.max(1, Math.floor(availableParallelism() / 2))) };
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
