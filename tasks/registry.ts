/** The environments by name: a task id begins with its environment's. */

import { Registry, UnknownName } from '../trainer/algorithms/registry.ts';
import type { Environment } from './task.ts';
import { sweMini } from './swe-mini/environment.ts';

const environments = new Registry<Environment>('environment', { [sweMini.name]: sweMini });

/** Adds an environment of one's own; its name must be new. Errors: a `TypeError` where it is taken. */
export function defineTask(environment: Environment): void {
  environments.define(environment.name, environment);
}

/** The environment that `taskId` (`NAME-SPLIT-N`) belongs to. Errors: `UnknownName`, with the known ones. */
export function environmentOf(taskId: string): Environment {
  const name = /^(.+?)-(?:train|held-out)-\d+$/.exec(taskId)?.[1] ?? taskId;
  const environment = environments.parts.get(name);
  if (environment) return environment;
  throw new UnknownName(`No environment for task ${taskId}; known: ${environments.names().join(', ')} (one's own are loaded by LONGHAUL_MODULES)`);
}
