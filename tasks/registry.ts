/** The environments by name. A task id starts with the name of its environment. */

import { didYouMean } from '../modules/closest.ts';
import { Registry, UnknownName } from '../modules/registry.ts';
import { Definition } from '../modules/check-definition.ts';
import { sweMini } from './swe-mini/environment.ts';
import { type Environment, UnknownTask } from './task.ts';

const environments = new Registry<Environment>('environment', { [sweMini.name]: sweMini });

/** The name is part of ids, of paths and of workflow ids. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/**
 * Adds a custom environment. The name must be new.
 * Errors: `DefinitionRefused` if a member is missing or wrong; `NameTaken`.
 */
export function defineTask(environment: Environment): void {
  const definition = new Definition(
    'defineTask',
    environment,
    NAME,
    'give letters, digits, dot, dash and underscore, at most 100',
  );
  definition.functions(['taskId', 'load', 'sandbox', 'collect', 'grade'], ['size']);
  environments.define(environment.name, environment);
}

/** Errors: `UnknownName`, with the known ones. */
export function environmentNamed(name: string): Environment {
  const environment = environments.parts.get(name);
  if (environment) return environment;
  throw unknown(`environment ${JSON.stringify(name)}`, name);
}

/**
 * The environment of `taskId` (`NAME-SPLIT-N`). Errors: `UnknownName`, with the known ones; `UnknownTask` if the
 * environment is known but the rest is not a split and an index.
 */
export function environmentOf(taskId: string): Environment {
  const name = /^(.+?)-(?:train|held-out)-\d+$/.exec(taskId)?.[1];
  const environment = name === undefined ? undefined : environments.parts.get(name);
  if (environment) return environment;
  const begun = environments.names().filter((one) => taskId === one || taskId.startsWith(`${one}-`));
  const longest = begun.toSorted((a, b) => b.length - a.length)[0];
  if (longest !== undefined && name !== longest)
    throw new UnknownTask(taskId, `expected ${longest}-train-N or ${longest}-held-out-N, N from 0`);
  throw unknown(`environment for task ${taskId}`, name ?? taskId.replace(/-(train|held-out|\d+).*$/, ''));
}

function unknown(what: string, name: string): UnknownName {
  const names = environments.names();
  return new UnknownName(
    `there is no ${what}; known: ${names.join(', ')} (LONGHAUL_MODULES loads custom ones)${didYouMean(name, names)}`,
  );
}
