/** The present state of a folder's stack, from its state file and its processes. */

import { isAlive } from '#setup/process-identity.mjs';
import { lockHolder } from '#setup/process-lock.mjs';
import { type StackPaths, stackPaths } from './stack-paths.ts';
import { type ProcessRecord, readStackState, type StackState } from './stack-state.ts';

export interface StackNow {
  /** `coming`: some processes run, and the server's id is not known yet. */
  readonly status: 'up' | 'coming' | 'down';
  readonly address: string;
  /** The id of its server's database. Empty while it is unknown. */
  readonly id: string;
}

/** For a stack with its own server. */
export function stackNow(home: string): StackNow {
  const paths = stackPaths(home);
  const { address = '', stackId = '' } = readStackState(paths.state) ?? {};
  return { status: !isStackUp(paths) ? 'down' : stackId === '' ? 'coming' : 'up', address, id: stackId };
}

/** True if a supervisor or any process of the stack runs. */
export function isStackUp(paths: StackPaths): boolean {
  return lockHolder(paths.lock) !== undefined || survivors(paths).length > 0;
}

/** The recorded state of a stack that is up or still has running processes. `undefined` for any other stack. */
export function runningStack(paths: StackPaths): StackState | undefined {
  const holder = lockHolder(paths.lock);
  const state = readStackState(paths.state);
  // A supervisor that has just started has written nothing yet: the file is from the supervisor before it.
  const isIts = holder === undefined ? survivors(paths).length > 0 : state?.supervisor.pid === holder.pid;
  return isIts ? state : undefined;
}

export function survivors(paths: StackPaths): ProcessRecord[] {
  return (readStackState(paths.state)?.processes ?? []).filter(
    (one) => one.process !== undefined && isAlive(one.process),
  );
}
