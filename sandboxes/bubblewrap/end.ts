/** Ends a sandbox from outside. Afterwards its processes, its groups and its folder are gone. */

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

/** Pid 1 of the sandbox; `undefined` if it cannot be identified with certainty. */
export function innerProcess(folder: string): ProcessIdentity | undefined {
  const recorded = readIdentity(folder, 'inner');
  if (recorded !== undefined) return recorded;
  const owner = readIdentity(folder, 'owner');
  const pid = Number(/"child-pid": (\d+)/u.exec(readState(folder, 'info') ?? '')?.[1]);
  if (owner === undefined || !Number.isInteger(pid) || !isAlive(owner)) return undefined;
  return parentOf(pid) === owner.pid ? identify(pid) : undefined;
}

const groupsOf = (folder: string): string[] => (readState(folder, 'cgroups') ?? '').split('\n').filter(Boolean);

/** The sandbox's pid 1 and its processes on the host. The other processes inside end with pid 1. */
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

/** Ends the sandbox of a folder, then removes the folder. Several processes may do this concurrently. */
async function endFolder(folder: string): Promise<void> {
  const groups = groupsOf(folder);
  const deadline = Date.now() + GONE_WITHIN_MS;
  // Pid 1 first: everything inside ends with it, and the process outside that waits for it then ends by itself.
  const inner = innerProcess(folder);
  if (inner !== undefined) killProcess(inner);
  for (let round = 0; ; round += 1) {
    const left = processesOf(folder);
    if (left.length === 0) break;
    if (inner === undefined || round > 150) for (const each of left) killProcess(each);
    if (Date.now() > deadline)
      throw new SandboxUnavailable(`sandbox processes ${left.map((each) => each.pid).join(', ')} do not end`);
    await sleep(Math.min(1 + round, 10));
  }
  for (const group of groups) await removeCgroup(group);
  removeFolder(folder);
}

/**
 * Ends the sandbox of a folder, if there is one. The folder is renamed first: from then on no process can find the
 * sandbox, and a new one with the same id is not affected by this ending.
 * Errors: `SandboxUnavailable` if one of its processes does not end.
 */
export async function endSandbox(folder: string): Promise<void> {
  setAside(folder);
  for (const ending of endingFolders(dirname(folder), basename(folder))) await endFolder(ending);
}

/** Completes the endings that processes started which have since died. */
export async function finishEndings(stateDir: string): Promise<void> {
  await allOf(endingFolders(stateDir, '').map((ending) => () => endFolder(ending)));
}
