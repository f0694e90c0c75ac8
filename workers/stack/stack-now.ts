/** A folder's stack at this moment, as its record and its processes say. */

import { stackPaths } from './stack-paths.ts';
import { readStackState } from './stack-state.ts';
import { isStackUp } from './stop-stack.ts';

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
