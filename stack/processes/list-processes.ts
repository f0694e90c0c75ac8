/** Which processes of the stack run now: the supervisor's record, corrected by a check of each process. */

import { statSync } from 'node:fs';
import { join } from 'node:path';
import { standingOf } from '#setup/process-identity.mjs';
import { lockHolder } from '#setup/process-lock.mjs';
import { type StackSettings, type ProcessRecord, readStackState } from '../../connection/stack-state.ts';
import { stackHome, stackPaths } from '../../connection/stack-paths.ts';

export interface ListedProcess {
  readonly name: string;
  /** `null` if no process runs. */
  readonly pid: number | null;
  /**
   * `stopped` with a pid: a signal (SIGSTOP) or a debugger holds it. `zombie`: it has ended, and its parent has not
   * waited for it. `silent`: it runs, but no longer reports that it works.
   */
  readonly state: ProcessRecord['state'] | 'zombie' | 'silent';
  /** Why it is not ready though it should be, with a remedy. */
  readonly problem?: string;
  readonly restarts: number;
  readonly since: string;
  readonly log: string;
  /** How it differs from other processes of its role. */
  readonly note?: string;
}

export interface ListedStack {
  /** `unsupervised`: the supervisor is gone, its processes still run; `up` takes them over. */
  readonly status: 'up' | 'starting' | 'stopping' | 'unsupervised' | 'down';
  readonly home: string;
  readonly address: string | null;
  readonly namespace: string | null;
  /** `null` also without a supervisor: then the UI cannot be reached. */
  readonly ui: string | null;
  readonly supervisor: number | null;
  /** Why the supervisor holds its lock but keeps nothing alive, with a remedy. */
  readonly problem?: string;
  /** The settings that it was started with, by variable. */
  readonly settings: StackSettings | null;
  readonly processes: readonly ListedProcess[];
}

export function listProcesses(home = stackHome()): ListedStack {
  const paths = stackPaths(home);
  const state = readStackState(paths.state);
  const holder = lockHolder(paths.lock);
  const processes = (state?.processes ?? []).map((record) => listed(record, paths.ready));
  const isRunning = holder !== undefined || processes.some((one) => one.pid !== null);
  return {
    status:
      holder === undefined
        ? isRunning
          ? 'unsupervised'
          : 'down'
        : state?.supervisor.pid === holder.pid
          ? state.phase
          : 'starting',
    home,
    address: isRunning ? (state?.address ?? null) : null,
    namespace: isRunning ? (state?.namespace ?? null) : null,
    // The proxy before the UI runs in the supervisor.
    ui: holder === undefined ? null : (state?.ui ?? null),
    supervisor: holder?.pid ?? null,
    ...(holder !== undefined && standingOf(holder) === 'stopped'
      ? {
          problem:
            'the supervisor is stopped by a signal or a debugger, and restarts nothing; to resume it: ' +
            `kill -CONT ${holder.pid}`,
        }
      : {}),
    settings: isRunning ? (state?.settings ?? null) : null,
    processes: isRunning ? processes : [],
  };
}

/** A worker reports every two seconds that it works. */
const SILENT_MS = 60_000;

function sinceItsWord(ready: string, name: string): number {
  const said = statSync(join(ready, `${name}.json`), { throwIfNoEntry: false });
  return said === undefined ? 0 : Date.now() - said.mtimeMs;
}

interface Seen {
  readonly state: ListedProcess['state'];
  readonly problem?: string;
}

function seen({ name, process: identity, state, log }: ProcessRecord, ready: string): Seen {
  const standing = identity === undefined ? 'gone' : standingOf(identity);
  const pid = identity?.pid;
  if (standing === 'stopped')
    return {
      state: 'stopped',
      problem: `${name} is stopped by a signal or a debugger; to resume it: kill -CONT ${pid}`,
    };
  if (standing === 'zombie')
    return {
      state: 'zombie',
      problem:
        `${name} (pid ${pid}) has ended, and its parent has not noticed it; run npx longhaul down, ` +
        'then npx longhaul up --detach',
    };
  if (standing === 'gone') return { state: state === 'backing-off' ? state : 'stopped' };
  const quiet = state === 'ready' ? sinceItsWord(ready, name) : 0;
  if (quiet < SILENT_MS) return { state };
  return {
    state: 'silent',
    problem:
      `${name} runs, but has not reported for ${Math.round(quiet / 1000)} s that it works: see ${log}; ` +
      `to restart it: kill ${pid}`,
  };
}

function listed(record: ProcessRecord, ready: string): ListedProcess {
  const { name, process: identity, restarts, since, log, note } = record;
  const { state, problem } = seen(record, ready);
  const runs = identity !== undefined && ['running', 'stopped'].includes(standingOf(identity));
  return {
    name,
    pid: runs ? identity.pid : null,
    state,
    restarts,
    since,
    log,
    ...(note === undefined ? {} : { note }),
    ...(problem === undefined ? {} : { problem }),
  };
}
