/** The environments by name: a task id begins with its environment's. */

import type { Environment } from './task.ts';
import { sweMini } from './swe-mini/environment.ts';

const environments = new Map<string, Environment>([[sweMini.name, sweMini]]);

/** Adds an environment of one's own; its name must be new. */
export function defineTask(environment: Environment): void {
  if (environments.has(environment.name)) throw new TypeError(`An environment named ${environment.name} exists`);
  environments.set(environment.name, environment);
}

/** The environment that `taskId` (`NAME-SPLIT-N`) belongs to. Errors: a `TypeError` that names the known ones. */
export function environmentOf(taskId: string): Environment {
  const name = /^(.+?)-(?:train|held-out)-\d+$/.exec(taskId)?.[1] ?? taskId;
  const environment = environments.get(name);
  if (environment) return environment;
  throw new TypeError(`No environment for task ${taskId}; known: ${[...environments.keys()].join(', ')}`);
}
