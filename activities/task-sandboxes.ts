/**
 * The sandboxes of a task as one: they are leased at once, made in one order, renewed and ended together. If one of
 * them is lost, all are.
 */

import { sandboxNamed } from '../protocol/record-keys.ts';
import type { SandboxRef } from '../protocol/stages.ts';
import { keptAlive, type SandboxLeases } from '../sandboxes/leases.ts';
import {
  type Sandbox,
  SandboxLost,
  type SandboxNetwork,
  type SandboxProvider,
  type SandboxSpec,
} from '../sandboxes/sandbox.ts';
import { MAIN, type Task } from '../tasks/environment.ts';
import { checkSandboxes, machineOf } from '../tasks/resources.ts';

/** By name. Empty: the task has none. */
export type TaskSandboxes = Readonly<Record<string, Sandbox>>;

/** By name: what each sandbox of a task is made of. The first sandbox of a network stands before those that join it. */
export type TaskSpecs = ReadonlyMap<string, SandboxSpec>;

type Sandboxed = Pick<Task, 'sandboxes' | 'resources' | 'gradedIn'>;

/** `main`: the id of the task's `main` sandbox. Errors: `UserInputError` for sandboxes that cannot be. */
export function specsOf(task: Sandboxed, key: string, main: string, ttlSeconds: number): TaskSpecs {
  checkSandboxes(task, key);
  const names = [MAIN, ...Object.keys(task.sandboxes ?? {}).filter((name) => name !== MAIN)];
  const members = Map.groupBy(names, (name) => task.sandboxes?.[name]?.network);
  const networkOf = (name: string, network: string): SandboxNetwork => {
    const [first = name, ...others] = members.get(network) ?? [];
    const joins = first === name ? {} : { joins: sandboxNamed(main, first) };
    return { ...joins, names: [first, ...others] };
  };
  return new Map(
    names.map((name): [string, SandboxSpec] => {
      const { network, ...machine } = machineOf(task, key, name);
      const shared = network === undefined ? {} : { network: networkOf(name, network) };
      return [name, { ...machine, ...shared, id: sandboxNamed(main, name), ttlSeconds }];
    }),
  );
}

/** Where the task's sandboxes are. */
export function refTo(specs: TaskSpecs, main: string, host: string, ttlSeconds: number): SandboxRef {
  const others = [...specs.keys()].filter((name) => name !== MAIN);
  return { sandbox: main, host, ttlSeconds, ...(others.length > 0 && { others }) };
}

/** The ids by name. */
function idsOf({ sandbox, others = [] }: Pick<SandboxRef, 'sandbox' | 'others'>): Array<[name: string, id: string]> {
  return [MAIN, ...others].map((name) => [name, sandboxNamed(sandbox, name)]);
}

/** Errors: a `TypeError` if there is none. */
export function mainOf(sandboxes: TaskSandboxes): Sandbox {
  const main = sandboxes[MAIN];
  if (main === undefined) throw new TypeError('There is no sandbox');
  return main;
}

export function closeAll(sandboxes: TaskSandboxes): void {
  for (const sandbox of Object.values(sandboxes)) sandbox.close();
}

/** Opens one after the other. If one fails, those before it are closed. */
async function openAll<T>(
  given: Iterable<readonly [name: string, what: T]>,
  open: (what: T) => Promise<Sandbox>,
): Promise<TaskSandboxes> {
  const opened: Record<string, Sandbox> = {};
  try {
    for (const [name, what] of given) opened[name] = await open(what);
    return opened;
  } catch (error) {
    closeAll(opened);
    throw error;
  }
}

async function isLive(provider: SandboxProvider, id: string): Promise<boolean> {
  try {
    (await provider.connect(id)).close();
    return true;
  } catch (error) {
    if (error instanceof SandboxLost) return false;
    throw error;
  }
}

/**
 * Makes all, or finds those that there are. If the first of a network is gone, those that joined it are made anew.
 * Errors: those of `create`; the caller then ends what was made.
 */
export async function createAll(provider: SandboxProvider, specs: TaskSpecs): Promise<TaskSandboxes> {
  for (const { id, network } of specs.values())
    if (network?.joins !== undefined && !(await isLive(provider, network.joins))) await provider.destroy(id);
  return openAll(specs, (spec) => provider.create(spec));
}

/** Errors: `SandboxLost` if any is gone. */
export function connectAll(
  provider: SandboxProvider,
  ref: Pick<SandboxRef, 'sandbox' | 'others'>,
): Promise<TaskSandboxes> {
  return openAll(idsOf(ref), (id) => provider.connect(id));
}

/** Keeps all sandboxes and their leases alive while `body` runs. */
export async function allKeptAlive<T>(
  leases: SandboxLeases,
  sandboxes: TaskSandboxes,
  owner: string,
  ttlSeconds: number,
  body: () => Promise<T>,
): Promise<T> {
  const [first, ...others] = Object.entries(sandboxes);
  if (first === undefined) return body();
  return keptAlive(leases, first[1], owner, ttlSeconds, () =>
    allKeptAlive(leases, Object.fromEntries(others), owner, ttlSeconds, body),
  );
}

/** Ends all, then releases their leases: those that joined a network end before its first one. */
export async function endAll(
  provider: SandboxProvider,
  releaseLease: (id: string) => Promise<void>,
  ref: Pick<SandboxRef, 'sandbox' | 'others'>,
): Promise<void> {
  for (const [, id] of idsOf(ref).toReversed()) {
    await provider.destroy(id);
    await releaseLease(id);
  }
}
