/**
 * Which stack of this machine has a port. The stack keeps it as long as one of its processes lives, even while its
 * server is down. Otherwise another stack's server could take it, and the workers would continue on the wrong server.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeWhole } from '#setup/files.mjs';
import { cacheDirectory } from '#setup/paths.mjs';
import { listProcesses } from './processes/list-processes.ts';
import { stackPaths } from '../connection/stack-paths.ts';
import { readStackState } from '../connection/stack-state.ts';

/** The claims of all users of one cache: a file per port, with the home of the stack that claimed it last. */
const folderOf = (env: NodeJS.ProcessEnv): string => join(cacheDirectory(env), 'ports');

/** Records that the server of `home` has the ports. Called when it listens on them: of two stacks, only one does. */
export function claimPorts(home: string, ports: readonly number[], env: NodeJS.ProcessEnv = process.env): void {
  for (const port of ports) writeWhole(join(folderOf(env), String(port)), home);
}

/** True if a live stack of another home has the port; a stack that we have no permission to read counts as live. */
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
