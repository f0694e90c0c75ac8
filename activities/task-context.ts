/** The context that a task's functions receive. */

import { LeasedProvider } from '../sandboxes/leased-provider.ts';
import { GRADER_LEASE, sandboxLeases } from '../sandboxes/leases.ts';
import type { Sandbox, SandboxProvider } from '../sandboxes/sandbox.ts';
import type { Store } from '../store/store.ts';
import { MAIN, type Task, type TaskContext } from '../tasks/environment.ts';
import { specsOf, type TaskSandboxes, type TaskSpecs } from './task-sandboxes.ts';

/** What names an execution of a task's function. */
export type Named = Pick<TaskContext, 'key' | 'id' | 'execution' | 'signal' | 'ask' | 'deadline' | 'agentPath'>;

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

/** Over the agent's own sandboxes. */
export function contextOver(sandboxes: TaskSandboxes, provider: SandboxProvider, named: Named): TaskContext {
  return {
    ...named,
    provider,
    async sandbox(name = MAIN) {
      const sandbox = sandboxes[name];
      if (sandbox !== undefined) return await Promise.resolve(sandbox);
      throw new TypeError(`${named.key} has no sandbox ${JSON.stringify(name)}`);
    },
  };
}

/** Over fresh sandboxes as the task describes them. Each is made when it is first used. */
export function freshContext(task: Task, provider: SandboxProvider, ttlSeconds: number, named: Named): TaskContext {
  const made = new Map<string, Promise<Sandbox>>();
  let specs: TaskSpecs | undefined;
  const make = async (name: string): Promise<Sandbox> => {
    specs ??= specsOf(task, named.key, named.id, ttlSeconds);
    const spec = specs.get(name);
    if (spec === undefined) throw new TypeError(`${named.key} has no sandbox ${JSON.stringify(name)}`);
    const [joined] = [...specs].find(([, { id }]) => id === spec.network?.joins) ?? [];
    if (joined !== undefined) await sandbox(joined);
    return provider.create(spec);
  };
  const sandbox = (name: string): Promise<Sandbox> => {
    const known = made.get(name) ?? make(name);
    made.set(name, known);
    return known;
  };
  return { ...named, provider, sandbox: (name = MAIN) => sandbox(name) };
}

/** Without a sandbox, for a task that is graded by its work alone. */
export function bareContext(named: Named): TaskContext {
  const refuse = () => Promise.reject(new TypeError(`${named.key} is graded without sandboxes (gradedIn: none)`));
  const provider: SandboxProvider = {
    name: 'none',
    create: refuse,
    connect: refuse,
    destroy: () => Promise.resolve(),
    list: () => Promise.resolve([]),
  };
  return { ...named, provider, sandbox: refuse };
}
