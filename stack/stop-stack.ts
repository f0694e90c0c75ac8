/** Takes the stack down: drained by its supervisor, or, where that is gone, process by process. Nothing is left over. */

import { survivors } from '../connection/stack-now.ts';
import { lockHolder, tryLock } from '#setup/process-lock.mjs';
import { SERVER } from './embedded-server.ts';
import { type StackPaths, stackHome, stackPaths } from '../connection/stack-paths.ts';
import { type ProcessRecord, readStackState, writeStackState } from '../connection/stack-state.ts';
import { stopProcess } from './processes/stop-process.ts';

export interface StopStackOptions {
  readonly home?: string;
  /** How long workers may finish what they do; default 60 s, then they are killed. */
  readonly deadlineMs?: number;
}

export interface StoppedStack {
  /** Whether anything ran. */
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
  // Who has the lock by now is a new stack, which has taken over what was left.
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
