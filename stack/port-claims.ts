/**
 * Which stack of this machine has a port: it stays that one's for as long as a process of it lives, also while its
 * server is down. Otherwise another stack's server could take it, and the workers would go on with a server not theirs.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeWhole } from '#setup/files.mjs';
import { cacheDirectory } from '#setup/paths.mjs';
import { listProcesses } from './processes/list-processes.ts';
import { stackPaths } from '../connection/stack-paths.ts';
import { readStackState } from '../connection/stack-state.ts';

/** The claims of all users of one cache, a file per port: the home of the stack that took it last. */
const folderOf = (env: NodeJS.ProcessEnv): string => join(cacheDirectory(env), 'ports');

/** Says that the server of `home` has the ports: once it listens on them, so that of two stacks that start the right one does. */
export function claimPorts(home: string, ports: readonly number[], env: NodeJS.ProcessEnv = process.env): void {
  for (const port of ports) writeWhole(join(folderOf(env), String(port)), home);
}

/** Whether another stack than the one of `home` has the port, and lives; one that we may not look at may live. */
export function isClaimedByOther(home: string, port: number, env: NodeJS.ProcessEnv = process.env): boolean {
  const other = claimantOf(join(folderOf(env), String(port)));
  if (other === undefined || other === home) return false;
  try {
    if (listProcesses(other).status === 'down') return false;
    const ports = readStackState(stackPaths(other).state)?.ports;
    return ports !== undefined && [ports.temporal, ports.ui].includes(port);
  } catch {
    return true;
  }
}

function claimantOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
