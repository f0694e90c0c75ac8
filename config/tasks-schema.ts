/** The settings of a run's tasks: `task` for one environment, `tasks` for several. */

import { resolve } from 'node:path';
import { z } from 'zod';
import { MOST_POOL } from '../protocol/limits.ts';
import type { TaskEntry } from '../protocol/run-config.ts';
import { UserInputError } from '../protocol/user-input-error.ts';

const SOURCE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const sourceSchema = z.string().regex(SOURCE, 'give letters, digits, dot, dash and underscore, at most 100');
export const splitSchema = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9._-]{0,63}$/, 'give the name of a split, such as train');
const options = z.record(z.string(), z.json());
const pool = {
  options: options.default({}),
  split: splitSchema.default('train'),
  train: z.int().min(1).max(MOST_POOL).optional(),
  folder: z.string().startsWith('/').optional(),
};

/** Paths of users' modules. */
export const modulesSchema = z.array(z.string().min(1)).min(1).max(50).optional();

/** The modules of a configuration, absolute: relative paths start at `folder`. Each is named once. */
export function resolveModules(modules: readonly string[] | undefined, folder: string) {
  return modules === undefined ? {} : { modules: [...new Set(modules.map((path) => resolve(folder, path)))] };
}

export const taskSchema = z.strictObject({ name: z.string().min(1), ...pool });

export const entriesSchema = z
  .array(
    z.strictObject({
      source: sourceSchema.optional(),
      environment: z.string().min(1),
      weight: z.number().positive().max(1e6).default(1),
      ...pool,
    }),
  )
  .min(1)
  .max(100);

interface GivenTasks {
  readonly task?: z.output<typeof taskSchema> | undefined;
  readonly tasks?: z.output<typeof entriesSchema> | undefined;
}

/**
 * Relative paths in options start at `cwd`. Errors: `UserInputError` if neither or both are given, or if two entries
 * have the same source.
 */
export function resolveTaskEntries({ task, tasks }: GivenTasks, cwd: string): readonly TaskEntry[] {
  if ((task === undefined) === (tasks === undefined))
    throw new UserInputError(
      task === undefined ? 'task' : 'tasks',
      undefined,
      'give task: { name, options } for one environment, or tasks: [{ source, environment, options, ' +
        'weight }] for several',
    );
  const given =
    tasks ?? (task === undefined ? [] : [{ ...task, environment: task.name, source: undefined, weight: 1 }]);
  const entries = given.map(({ source, environment, options: chosen, folder, weight, split, train }) => ({
    source: source ?? environment,
    environment,
    options: chosen,
    ...(Object.keys(chosen).length > 0 && { folder: folder ?? cwd }),
    weight,
    split,
    ...(train !== undefined && { train }),
  }));
  const names = entries.map(({ source }) => source);
  const twin = names.findIndex((name, i) => names.indexOf(name) !== i);
  if (twin >= 0)
    throw new UserInputError(
      `tasks.${twin}.source`,
      names[twin],
      'give each entry a different source: its tasks’ keys start with it',
    );
  return entries;
}
