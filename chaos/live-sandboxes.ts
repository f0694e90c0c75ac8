/** Live sandboxes, from the records of their providers, and the processes of each. */

import type Docker from 'dockerode';
import { innerProcess } from '../sandboxes/bubblewrap/end.ts';
import { dockerClient } from '../sandboxes/docker/client.ts';
import { readRecord } from '../sandboxes/docker/record.ts';
import { identify, isAlive, type ProcessIdentity } from '../sandboxes/supervised/process-identity.ts';
import { listFolders, readIdentity } from '../sandboxes/supervised/state.ts';

export interface LiveSandbox {
  readonly id: string;
  /** Its first process. */
  readonly inner: ProcessIdentity;
  /** The process outside that waits for it, if there is one. */
  readonly outer?: ProcessIdentity;
}

/** Lists the live sandboxes whose ids start with `prefix`. */
export type ListSandboxes = (prefix: string) => Promise<LiveSandbox[]>;

export function bubblewrapSandboxes(stateDir: string): ListSandboxes {
  return async (prefix) =>
    listFolders(stateDir).flatMap(({ id, folder }) => {
      const inner = id.startsWith(prefix) ? innerProcess(folder) : undefined;
      const outer = readIdentity(folder, 'owner');
      return inner !== undefined && isAlive(inner) ? [{ id, inner, ...(outer ? { outer } : {}) }] : [];
    });
}

async function pidOf(docker: Docker, name: string): Promise<number> {
  const { State } = await docker.getContainer(name).inspect();
  return State.Running ? State.Pid : 0;
}

export function dockerSandboxes(stateDir: string, env: NodeJS.ProcessEnv): ListSandboxes {
  return async (prefix) => {
    const listed = listFolders(stateDir).filter(({ id }) => id.startsWith(prefix));
    // Without containers, Docker may not be installed.
    if (listed.length === 0) return [];
    const docker = dockerClient(env);
    const found = await Promise.all(
      listed.map(async ({ id, folder }) => {
        const pid = await pidOf(docker, readRecord(folder)?.name ?? '').catch(() => 0);
        const inner = pid > 0 ? identify(pid) : undefined;
        return inner ? [{ id, inner }] : [];
      }),
    );
    return found.flat();
  };
}
