/** What of the stack runs at this moment: the record of the supervisor, corrected by a look at each process. */

import { statSync } from 'node:fs';
import { join } from 'node:path';
import { standingOf } from '#setup/process-identity.mjs';
import { lockHolder } from '#setup/process-lock.mjs';
import { type StackSettings, type ProcessRecord, readStackState } from '../../connection/stack-state.ts';
import { stackHome, stackPaths } from '../../connection/stack-paths.ts';

export interface ListedProcess {
  readonly name: string;
  /** `null` while none runs. */
  readonly pid: number | null;
  /**
   * `stopped` with a process: it lives and does nothing (SIGSTOP, a debugger). `zombie`: it has ended, and nobody has taken
   * note. `silent`: it runs, and does not say any more that it works.
   */
  readonly state: ProcessRecord['state'] | 'zombie' | 'silent';
  /** Why it is not ready though it should be, and what helps. */
  readonly problem?: string;
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
  /** `null` also where nobody supervises the stack: the UI cannot be reached. */
  readonly ui: string | null;
  readonly supervisor: number | null;
  /** Why the supervisor keeps nothing alive though it has its place, and what helps. */
  readonly problem?: string;
  /** What it was told when it came up, by variable. */
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
    // Its door is the supervisor's.
    ui: holder === undefined ? null : (state?.ui ?? null),
    supervisor: holder?.pid ?? null,
    ...(holder !== undefined && standingOf(holder) === 'stopped'
      ? {
          problem: `the supervisor is stopped by a signal or a debugger, and starts nothing again: kill -CONT ${holder.pid}`,
        }
      : {}),
    settings: isRunning ? (state?.settings ?? null) : null,
    processes: isRunning ? processes : [],
  };
}

/** A worker says every two seconds that it works. */
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
      problem: `${name} is stopped by a signal or a debugger, and does nothing: kill -CONT ${pid}`,
    };
  if (standing === 'zombie')
    return {
      state: 'zombie',
      problem: `${name} (${pid}) has ended, and its parent has not taken note: npx longhaul down, then npx longhaul up --detach`,
    };
  if (standing === 'gone') return { state: state === 'backing-off' ? state : 'stopped' };
  const quiet = state === 'ready' ? sinceItsWord(ready, name) : 0;
  if (quiet < SILENT_MS) return { state };
  return {
    state: 'silent',
    problem: `${name} runs, and has not said for ${Math.round(quiet / 1000)} s that it works: see ${log}; kill ${pid} has it started again`,
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
