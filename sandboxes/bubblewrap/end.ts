/** Ends a sandbox from outside: when it returns, no process of it is left, and neither are its groups and its folder. */

import { basename, dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { allOf, endingFolders, readIdentity, readState, removeFolder, setAside } from '../supervised/state.ts';
import { SandboxUnavailable } from '../sandbox.ts';
import { processesIn, removeCgroup } from './cgroup.ts';
import {
  type ProcessIdentity,
  childrenOf,
  identify,
  isAlive,
  killProcess,
  parentOf,
} from '../supervised/process-identity.ts';

const GONE_WITHIN_MS = 15_000;

/** Pid 1 of the sandbox, if it is certain which process that is. */
export function innerProcess(folder: string): ProcessIdentity | undefined {
  const recorded = readIdentity(folder, 'inner');
  if (recorded !== undefined) return recorded;
  const owner = readIdentity(folder, 'owner');
  const pid = Number(/"child-pid": (\d+)/u.exec(readState(folder, 'info') ?? '')?.[1]);
  if (owner === undefined || !Number.isInteger(pid) || !isAlive(owner)) return undefined;
  return parentOf(pid) === owner.pid ? identify(pid) : undefined;
}

const groupsOf = (folder: string): string[] => (readState(folder, 'cgroups') ?? '').split('\n').filter(Boolean);

/** Every process outside that belongs to the sandbox; those inside end with its pid 1. */
function processesOf(folder: string): ProcessIdentity[] {
  const owner = readIdentity(folder, 'owner');
  const live = owner !== undefined && isAlive(owner) ? owner : undefined;
  const inner = innerProcess(folder);
  const pids = groupsOf(folder).flatMap(processesIn);
  if (live !== undefined) pids.push(...childrenOf(live.pid));
  const found = pids.flatMap((pid) => identify(pid) ?? []);
  return [inner, ...found, live]
    .filter((each) => each !== undefined && isAlive(each))
    .filter((each) => each !== undefined);
}

/** Ends what a folder stands for, then removes the folder. Any number of processes may do so at once. */
async function endFolder(folder: string): Promise<void> {
  const groups = groupsOf(folder);
  const deadline = Date.now() + GONE_WITHIN_MS;
  // Pid 1 first: its end is the end of all that is inside, and what waits for it outside then ends by itself.
  const inner = innerProcess(folder);
  if (inner !== undefined) killProcess(inner);
  for (let round = 0; ; round += 1) {
    const left = processesOf(folder);
    if (left.length === 0) break;
    if (inner === undefined || round > 150) for (const each of left) killProcess(each);
    if (Date.now() > deadline)
      throw new SandboxUnavailable(`processes ${left.map((each) => each.pid).join(', ')} of a sandbox do not end`);
    await sleep(Math.min(1 + round, 10));
  }
  for (const group of groups) await removeCgroup(group);
  removeFolder(folder);
}

/**
 * Ends the sandbox of a folder, if there is one. The folder is renamed first, so that from then on the sandbox is
 * lost for everybody, and a new one of the same id has nothing to do with the end of this one.
 * Errors: `SandboxUnavailable` when a process of it does not die.
 */
export async function endSandbox(folder: string): Promise<void> {
  setAside(folder);
  for (const ending of endingFolders(dirname(folder), basename(folder))) await endFolder(ending);
}

/** Goes on with what processes that no longer live began to end. */
export async function finishEndings(stateDir: string): Promise<void> {
  await allOf(endingFolders(stateDir, '').map((ending) => () => endFolder(ending)));
}
