/** The context that a task's functions receive. */

import { LeasedProvider } from '../sandboxes/leased-provider.ts';
import { GRADER_LEASE, sandboxLeases } from '../sandboxes/leases.ts';
import type { Sandbox, SandboxProvider } from '../sandboxes/sandbox.ts';
import type { Store } from '../store/store.ts';
import { MAIN, type SandboxRequest, type TaskContext } from '../tasks/environment.ts';

/** What names an execution of a task's function. */
export type Named = Pick<TaskContext, 'key' | 'id' | 'execution' | 'signal'>;

/** Where sandboxes are made. */
export interface SandboxPlace {
  readonly store: Store;
  readonly provider: SandboxProvider;
  readonly host: string;
}

/**
 * Runs `work` with a provider whose sandboxes are leased to `owner` and end with it, unless `leaves` returns true when
 * the work has ended.
 */
export async function withFurtherSandboxes<T>(
  { store, provider, host }: SandboxPlace,
  owner: string,
  work: (further: LeasedProvider) => Promise<T>,
  leaves: () => boolean = () => false,
): Promise<T> {
  const leases = sandboxLeases(store, host, Number.MAX_SAFE_INTEGER, GRADER_LEASE);
  const further = new LeasedProvider(provider, leases, owner);
  try {
    return await work(further);
  } finally {
    await (leaves() ? further.leave() : further.end());
  }
}

/** Over the agent's own sandbox, if it has one. */
export function contextOver(sandbox: Sandbox | undefined, provider: SandboxProvider, named: Named): TaskContext {
  return {
    ...named,
    provider,
    async sandbox(name = MAIN) {
      if (name === MAIN && sandbox !== undefined) return await Promise.resolve(sandbox);
      throw new TypeError(`${named.key} has no sandbox ${JSON.stringify(name)}`);
    },
  };
}

/** Over fresh sandboxes as the task describes them. Each is made when it is first used. */
export function freshContext(
  requests: Readonly<Record<string, SandboxRequest>> | undefined,
  provider: SandboxProvider,
  ttlSeconds: number,
  named: Named,
): TaskContext {
  const made = new Map<string, Promise<Sandbox>>();
  return {
    ...named,
    provider,
    async sandbox(name = MAIN) {
      const request = requests?.[name];
      if (request === undefined) throw new TypeError(`${named.key} has no sandbox ${JSON.stringify(name)}`);
      const id = name === MAIN ? named.id : `${named.id}-${name}`;
      const sandbox = made.get(name) ?? provider.create({ ...request, id, ttlSeconds });
      made.set(name, sandbox);
      return sandbox;
    },
  };
}
