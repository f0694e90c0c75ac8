/**
 * Launches one sandbox: makes the control groups, then starts the launcher, which becomes bubblewrap. After it returns,
 * the socket listens and the sandbox no longer depends on this process.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { type SandboxSpec, SandboxUnavailable } from '../sandbox.ts';
import { bubblewrapArguments, placeArguments } from './arguments.ts';
import type { Bubblewrap } from './find-bubblewrap.ts';
import { type CgroupHost, cgroupsOf, makeCgroups } from './cgroup.ts';
import { innerProcess } from './end.ts';
import { isAlive } from '../supervised/process-identity.ts';
import type { Runtime } from '../supervised/runtime.ts';
import { DEFAULT_CPUS } from '../supervised/spec.ts';
import { folderName, stateFile } from '../supervised/state.ts';

const MIB = 1 << 20;
const READY_WITHIN_MS = 30_000;
/** The process on the host that waits, the supervisor, and one more while a process forks. */
const OWN_PROCESSES = 3;
/** Memory of the supervisor itself: answers that clients have not read yet. */
const OWN_MEMORY = 16 * MIB;

let launches = 0;

export interface LaunchHost {
  readonly bubblewrap: Bubblewrap;
  readonly runtime: Runtime;
  readonly cgroups: CgroupHost | undefined;
  /** `undefined`: the sandbox runs in the caller's own user namespace. */
  readonly uids: { readonly first: number; readonly count: number; readonly dir: string } | undefined;
}

function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    let complaint = '';
    const late = setTimeout(() => child.kill('SIGKILL'), READY_WITHIN_MS);
    child.stdout?.setEncoding('latin1').on('data', (text: string) => {
      said += text;
      if (said.includes('ready\n')) {
        clearTimeout(late);
        resolve();
      }
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint += text;
    });
    child.once('error', (error) =>
      reject(new SandboxUnavailable(`the sandbox launcher did not start: ${error.message}`)),
    );
    child.once('close', () => {
      clearTimeout(late);
      reject(new SandboxUnavailable(`the sandbox launcher ended: ${complaint.trim() || 'no reason given'}`));
    });
  });
}

function prepareGroups(
  host: LaunchHost,
  folder: string,
  spec: SandboxSpec,
): { counters: readonly [oomFile: string, cpuFile: string]; procs: string[] } {
  if (host.cgroups === undefined) return { counters: ['-', '-'], procs: [] };
  const memory = (spec.limits.memoryMiB + spec.limits.diskMiB) * MIB + OWN_MEMORY;
  launches += 1;
  const groups = cgroupsOf(host.cgroups, `${folderName(spec.id)}-${process.pid}-${launches}`);
  // Recorded first: if this process dies, the process that cleans up must find the groups.
  writeFileSync(join(folder, stateFile.cgroups), groups.folders.join('\n'));
  makeCgroups(groups, {
    memoryBytes: memory,
    processes: spec.limits.processes + OWN_PROCESSES,
    cpus: spec.cpus ?? DEFAULT_CPUS,
  });
  return {
    counters: [groups.oomFile, groups.cpuFile ?? '-'],
    procs: groups.folders.map((each) => join(each, 'cgroup.procs')),
  };
}

/** The network namespace of the sandbox `id`, whose folder is beside `folder`. */
function networkOf(folder: string, id: string): string {
  const inner = innerProcess(join(dirname(folder), folderName(id)));
  if (inner === undefined || !isAlive(inner))
    throw new SandboxUnavailable(`sandbox ${id}, whose network it joins, is gone`);
  return `/proc/${inner.pid}/ns/net`;
}

/** Errors: `SandboxUnavailable` with the launcher's output. */
export async function launch(host: LaunchHost, folder: string, spec: SandboxSpec): Promise<void> {
  const groups = prepareGroups(host, folder, spec);
  const uids = host.uids ?? { first: 0, count: 1, dir: '-' };
  const network = spec.network?.joins === undefined ? '-' : networkOf(folder, spec.network.joins);
  const own = ['launch', folder, String(uids.first), String(uids.count), uids.dir, ...groups.counters, network];
  const command = [
    ...own,
    ...groups.procs,
    '--',
    ...placeArguments(spec),
    '--',
    host.bubblewrap.path,
    ...bubblewrapArguments(host.bubblewrap, host.runtime, spec),
  ];
  const child = spawn(host.runtime.supervisor, command, { stdio: ['ignore', 'pipe', 'pipe'], detached: true, env: {} });
  try {
    await ready(child);
  } finally {
    child.unref();
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}
