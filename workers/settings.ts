/** What a worker process takes from its environment: one reading, with every default in one place. */

import { availableParallelism, hostname } from 'node:os';
import { join, resolve } from 'node:path';

export const ROLES = ['orchestrator', 'init', 'agent-run', 'reward', 'gpu'] as const;
export type Role = (typeof ROLES)[number];

export interface WorkerSettings {
  /** `$LONGHAUL_HOME`: the stack's state, logs and store. */
  readonly home: string;
  readonly storeDir: string;
  readonly sandboxDir: string;
  readonly host: string;
  readonly maxLiveSandboxes: number;
  readonly sandboxTtlSeconds: number;
  /** Activities of this role that run at once. */
  readonly slots: Readonly<Record<Role, number>>;
}

function count(name: string, fallback: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new TypeError(`${name}: ${JSON.stringify(text)} cannot be used; give a whole number of at least 1`);
}

export function readWorkerSettings(): WorkerSettings {
  const home = resolve(process.env['LONGHAUL_HOME'] ?? '.longhaul');
  const cores = availableParallelism();
  const maxLiveSandboxes = count('LONGHAUL_MAX_SANDBOXES', 32 * cores);
  return {
    home,
    storeDir: join(home, 'store'),
    sandboxDir: join(home, 'sandboxes'),
    host: process.env['LONGHAUL_HOST'] ?? hostname(),
    maxLiveSandboxes,
    sandboxTtlSeconds: count('LONGHAUL_SANDBOX_TTL', 1800),
    slots: {
      orchestrator: count('LONGHAUL_SLOTS_ORCHESTRATOR', 32),
      init: count('LONGHAUL_SLOTS_INIT', 2 * cores),
      // A slot per live sandbox: a turn that waits for a slot looks like one on a host that has died.
      'agent-run': count('LONGHAUL_SLOTS_AGENT_RUN', maxLiveSandboxes),
      reward: count('LONGHAUL_SLOTS_REWARD', 2 * cores),
      gpu: count('LONGHAUL_SLOTS_GPU', 256),
    },
  };
}
