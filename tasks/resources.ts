/**
 * What a task takes of the machine: checked when the task is loaded, and filled in for each of its sandboxes. The
 * sandbox's own limit counts before the task's, and the task's before the default.
 */

import { didYouMean } from '../protocol/closest.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import type { SandboxSpec } from '../sandboxes/sandbox.ts';
import { MAIN, type Resources, type Task } from './environment.ts';

const DAY = 86_400;
/** The largest values. Preparing a task has six hours, waits for room included; a day is what an activity may take. */
const MOST: Readonly<Record<keyof Resources, number>> = {
  memoryMiB: 1 << 24,
  cpus: 4096,
  diskMiB: 1 << 24,
  setUpSeconds: 14_400,
  toolSeconds: DAY,
  gradeSeconds: DAY,
};
/** Their units are not divided. */
const WHOLE: ReadonlySet<string> = new Set(['memoryMiB', 'diskMiB']);
const DEFAULT_LIMITS = { memoryMiB: 512, processes: 128, diskMiB: 256 } as const;
/** Of sandboxes and networks: the names are parts of ids and host names. */
const NAME = /^[a-z][a-z0-9-]{0,30}$/;
const PLACES: readonly unknown[] = ['fresh', 'agents', 'none'];

function checkValue(name: string, value: unknown, key: string): void {
  const most = (MOST as Readonly<Record<string, number>>)[name];
  if (most === undefined)
    throw new UserInputError(
      `resources.${name}`,
      value,
      `task ${key} may set ${Object.keys(MOST).join(', ')}${didYouMean(name, Object.keys(MOST))}`,
    );
  const isOne = typeof value === 'number' && value > 0 && value <= most;
  if (isOne && (!WHOLE.has(name) || Number.isInteger(value))) return;
  const kind = WHOLE.has(name) ? 'a whole number' : 'a number';
  throw new UserInputError(`resources.${name}`, value, `give ${kind} above 0, at most ${most}, in task ${key}`);
}

/**
 * Not called when a task is loaded: to make the files of its sandboxes may take some time, and sampling needs none of
 * them. Errors: `UserInputError`, for sandboxes that cannot be.
 */
export function checkSandboxes({ sandboxes = {}, gradedIn }: Pick<Task, 'sandboxes' | 'gradedIn'>, key: string): void {
  const given = Object.entries(sandboxes);
  if (gradedIn === 'agents' && given.length === 0)
    throw new UserInputError('gradedIn', gradedIn, `task ${key} has no sandboxes: leave it out, or give none`);
  if (given.length > 0 && sandboxes[MAIN] === undefined)
    throw new UserInputError(
      'sandboxes',
      Object.keys(sandboxes),
      `one of them must be named ${MAIN} in task ${key}: the tools act there`,
    );
  for (const [name, { network }] of given) {
    if (!NAME.test(name))
      throw new UserInputError('sandboxes', name, `give lower-case letters, digits and dashes in task ${key}`);
    if (network === undefined) continue;
    if (!NAME.test(network))
      throw new UserInputError(
        `sandboxes.${name}.network`,
        network,
        `give lower-case letters, digits and dashes in task ${key}`,
      );
    if (given.filter(([, other]) => other.network === network).length < 2)
      throw new UserInputError(
        `sandboxes.${name}.network`,
        network,
        `name the same network in another sandbox of task ${key}, or leave it out: a sandbox alone reaches nothing`,
      );
  }
}

/** Errors: `UserInputError` with field, value and remedy, for what the task `key` cannot ask for. */
export function checkResources({ resources = {}, gradedIn = 'fresh' }: Task, key: string): void {
  for (const [name, value] of Object.entries(resources)) checkValue(name, value, key);
  if (!PLACES.includes(gradedIn))
    throw new UserInputError('gradedIn', gradedIn, `give fresh, agents or none in task ${key}`);
}

/** A sandbox's spec without its id and lifetime, and with its network's name. */
export type Machine = Omit<SandboxSpec, 'id' | 'ttlSeconds' | 'network'> & { readonly network?: string };

/** What the task's sandbox `name` is made of. Errors: `TypeError` if the task has no such sandbox. */
export function machineOf(task: Pick<Task, 'resources' | 'sandboxes'>, key: string, name: string): Machine {
  const request = task.sandboxes?.[name];
  if (request === undefined) throw new TypeError(`task ${key} has no sandbox ${JSON.stringify(name)}`);
  const { memoryMiB, diskMiB, cpus, setUpSeconds } = task.resources ?? {};
  const own = { ...(memoryMiB !== undefined && { memoryMiB }), ...(diskMiB !== undefined && { diskMiB }) };
  return {
    ...(cpus !== undefined && { cpus }),
    ...(setUpSeconds !== undefined && { setUpSeconds }),
    ...request,
    limits: { ...DEFAULT_LIMITS, ...own, ...request.limits },
  };
}
