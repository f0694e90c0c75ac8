/** A folder's stack at this moment, as its record and its processes say. */

import { isAlive } from '#setup/process-identity.mjs';
import { lockHolder } from '#setup/process-lock.mjs';
import { type StackPaths, stackPaths } from './stack-paths.ts';
import { type ProcessRecord, readStackState, type StackState } from './stack-state.ts';

export interface StackNow {
  /** `coming`: some of it runs, and its server's id is not known yet. */
  readonly status: 'up' | 'coming' | 'down';
  readonly address: string;
  /** Of its server's database; empty while it is not known. */
  readonly id: string;
}

/** Of a stack with a server of its own. */
export function stackNow(home: string): StackNow {
  const paths = stackPaths(home);
  const { address = '', stackId = '' } = readStackState(paths.state) ?? {};
  return { status: !isStackUp(paths) ? 'down' : stackId === '' ? 'coming' : 'up', address, id: stackId };
}

/** Whether a supervisor or any process of the stack runs. */
export function isStackUp(paths: StackPaths): boolean {
  return lockHolder(paths.lock) !== undefined || survivors(paths).length > 0;
}

/** What is on record of a stack that is up, or of whose processes some run; `undefined` of any other. */
export function runningStack(paths: StackPaths): StackState | undefined {
  const holder = lockHolder(paths.lock);
  const state = readStackState(paths.state);
  // A supervisor that has only just begun has written nothing: what is there is of the one before it.
  const isIts = holder === undefined ? survivors(paths).length > 0 : state?.supervisor.pid === holder.pid;
  return isIts ? state : undefined;
}

export function survivors(paths: StackPaths): ProcessRecord[] {
  return (readStackState(paths.state)?.processes ?? []).filter(
    (one) => one.process !== undefined && isAlive(one.process),
  );
}
