/** Stops the stack: its supervisor drains it; without one, its processes are stopped one by one. None remains. */

import { survivors } from '../connection/stack-now.ts';
import { lockHolder, tryLock } from '#setup/process-lock.mjs';
import { SERVER } from './embedded-server.ts';
import { type StackPaths, stackHome, stackPaths } from '../connection/stack-paths.ts';
import { type ProcessRecord, readStackState, writeStackState } from '../connection/stack-state.ts';
import { stopProcess } from './processes/stop-process.ts';

export interface StopStackOptions {
  readonly home?: string;
  /** How long workers may finish their work before they are killed; default 60 s. */
  readonly deadlineMs?: number;
}

export interface StoppedStack {
  /** True if any process ran. */
  readonly wasUp: boolean;
  readonly stopped: readonly string[];
}

export async function stopStack(options: StopStackOptions = {}): Promise<StoppedStack> {
  const paths = stackPaths(options.home ?? stackHome());
  const deadlineMs = options.deadlineMs ?? 60_000;
  const before = survivors(paths);
  const supervisor = lockHolder(paths.lock);
  if (supervisor !== undefined) await stopProcess(supervisor, deadlineMs);
  if (supervisor === undefined && before.length === 0) return { wasUp: false, stopped: [] };
  // If the lock is held now, a new stack has taken over the remaining processes.
  const release = tryLock(paths.lock);
  if (release !== undefined) await endSurvivors(paths, deadlineMs).finally(release);
  return { wasUp: true, stopped: before.map((record) => record.name) };
}

async function endSurvivors(paths: StackPaths, deadlineMs: number): Promise<void> {
  const left = survivors(paths);
  const end = async (records: ProcessRecord[]) => {
    await Promise.all(records.map(async (record) => record.process && stopProcess(record.process, deadlineMs)));
  };
  await end(left.filter((record) => record.name !== SERVER));
  await end(left.filter((record) => record.name === SERVER));
  const state = readStackState(paths.state);
  if (state === undefined) return;
  const processes = state.processes.map(({ process: _gone, ...record }) => ({ ...record, state: 'stopped' as const }));
  writeStackState(paths.state, { ...state, phase: 'stopping', processes });
}
