/** What of the stack runs at this moment: the record of the supervisor, corrected by a look at each process. */

import { isAlive } from '#setup/process-identity.mjs';
import { lockHolder } from '#setup/process-lock.mjs';
import type { StackSettings } from '../stack-settings.ts';
import { stackHome, stackPaths } from '../stack-paths.ts';
import { type ProcessRecord, readStackState } from '../stack-state.ts';

export interface ListedProcess {
  readonly name: string;
  /** `null` while none runs. */
  readonly pid: number | null;
  readonly state: ProcessRecord['state'];
  readonly restarts: number;
  readonly since: string;
  readonly log: string;
  /** What sets it apart from others of its role. */
  readonly note?: string;
}

export interface ListedStack {
  /** `unsupervised`: the supervisor is gone, its processes run on; `up` takes them over. */
  readonly status: 'up' | 'starting' | 'stopping' | 'unsupervised' | 'down';
  readonly home: string;
  readonly address: string | null;
  readonly namespace: string | null;
  readonly ui: string | null;
  readonly supervisor: number | null;
  /** What it was told when it came up, by variable. */
  readonly settings: StackSettings | null;
  readonly processes: readonly ListedProcess[];
}

export function listProcesses(home = stackHome()): ListedStack {
  const paths = stackPaths(home);
  const state = readStackState(paths.state);
  const holder = lockHolder(paths.lock);
  const processes = (state?.processes ?? []).map(listed);
  const isRunning = holder !== undefined || processes.some((one) => one.pid !== null);
  return {
    status: holder === undefined ? (isRunning ? 'unsupervised' : 'down') : state?.supervisor.pid === holder.pid ? state.phase : 'starting',
    home,
    address: isRunning ? (state?.address ?? null) : null,
    namespace: isRunning ? (state?.namespace ?? null) : null,
    ui: isRunning ? (state?.ui ?? null) : null,
    supervisor: holder?.pid ?? null,
    settings: isRunning ? (state?.settings ?? null) : null,
    processes: isRunning ? processes : [],
  };
}

function listed({ name, process: identity, state, restarts, since, log, note }: ProcessRecord): ListedProcess {
  const alive = identity !== undefined && isAlive(identity);
  const shown = alive || state === 'backing-off' ? state : 'stopped';
  return { name, pid: alive ? identity.pid : null, state: shown, restarts, since, log, ...(note === undefined ? {} : { note }) };
}
