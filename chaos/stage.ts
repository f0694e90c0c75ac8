/** The stack that is disturbed: the command's own, in its own folder, whatever the caller's environment names. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stackPaths } from '../connection/stack-paths.ts';
import { readStackState, type StackState } from '../connection/stack-state.ts';
import type { Store } from '../store/store.ts';
import type { Longhaul } from '../client/longhaul.ts';
import type { RunHandle } from '../client/run-handle.ts';
import type { Journal } from './journal.ts';
import type { ListSandboxes } from './live-sandboxes.ts';
import type { OwnDocker } from './own-docker.ts';
import type { WaitingClient } from './waiting-client.ts';

export interface Stage {
  /** The command's folder; its runs are in `runs/`. */
  readonly dir: string;
  /** The stack's state. */
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
  readonly store: Store;
  readonly longhaul: Longhaul;
  /** The run that is disturbed. */
  readonly run: RunHandle;
  readonly journal: Journal;
  readonly client: WaitingClient;
  readonly sandboxes: ListSandboxes;
  /** The daemon that makes the sandboxes, if the command started it. */
  readonly docker?: OwnDocker;
  /** Reports a line of progress. */
  readonly note: (line: string) => void;
}

/**
 * The environment without settings that name the caller's cluster, roles or folders, so that none of these is touched.
 * There is one GPU worker, so that the plan can name it.
 */
export function ownEnvironment(env: NodeJS.ProcessEnv, dir: string): NodeJS.ProcessEnv {
  const named = /^(TEMPORAL_|LONGHAUL_(HOME|STORE|ROLES|HOST|MODULE_PLACES|WORKER_NAME|TEMPORAL_UI)$)/u;
  const kept = Object.entries(env).filter(([name]) => !named.test(name));
  const profiles = join(dir, 'temporal.toml');
  mkdirSync(dir, { recursive: true });
  writeFileSync(profiles, '[profile.default]\n');
  return {
    ...Object.fromEntries(kept),
    LONGHAUL_HOME: join(dir, '.longhaul'),
    LONGHAUL_GPU_WORKERS: '1',
    LONGHAUL_RUN_PLACES: dir,
    TEMPORAL_CONFIG_FILE: profiles,
  };
}

export function stackState(home: string): StackState | undefined {
  return readStackState(stackPaths(home).state);
}

/** The process of the stack with this name, which may be `supervisor`. */
export function processOf(home: string, name: string) {
  const state = stackState(home);
  return name === 'supervisor' ? state?.supervisor : state?.processes.find((one) => one.name === name)?.process;
}
