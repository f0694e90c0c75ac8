/**
 * The environment `harbor`: task folders of Harbor and Terminal-Bench, each with its instruction, its image, and the
 * tests that grade what the agent left in its sandbox.
 */

import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { Dataset, Environment, EnvironmentIo } from '../environment.ts';
import { UnknownTask } from '../environment.ts';
import { digestOfFolder, isFolder } from './folder.ts';
import { isTask, readTask } from './read-task.ts';
import { taskOf } from './task.ts';

const path = z.string().min(1, 'give the path of a task folder, or of a folder of them');
const size = z.int().positive().optional();

export const harborOptions = z.strictObject({
  /** For each split a task folder, a folder of task folders, or several of them. */
  data: z
    .record(z.string(), z.union([path, z.array(path).min(1)]))
    .refine((data) => Object.keys(data).length > 0, 'give folders for at least one split, such as train'),
  /** Names of the folders to take. Absent: all. */
  tasks: z.array(z.string()).optional(),
  /** Names of the folders to leave out. */
  except: z.array(z.string()).default([]),
  /**
   * `build`: the image that the task names, else one that is built of its Dockerfile. `files`: none; what the
   * Dockerfile copies is written into the sandbox. Else an image for all tasks; `{name}` is a task's folder.
   */
  image: z.string().min(1).default('build'),
  /** What happens to tasks that ask for a network: `drop` runs them without one. */
  network: z.enum(['refuse', 'drop']).default('refuse'),
  /** What the agent left running while it is graded. `keep`: for tasks whose work is a running server. */
  processes: z.enum(['end', 'keep']).default('end'),
  /** Values of `${NAME}` in the tasks' files. */
  env: z.record(z.string(), z.string()).default({}),
  /** Where the agent works if neither task nor Dockerfile say it. */
  workdir: z.string().startsWith('/').default('/app'),
  /** The most that a task gets, whatever it asks for. */
  most: z.strictObject({ memoryMiB: size, cpus: z.number().positive().optional(), diskMiB: size }).default({}),
  /** The reward that is the score. A task without it has the mean of its rewards. */
  rewardKey: z.string().min(1).default('reward'),
  tools: z.array(z.string()).min(1).default(['bash', 'str_replace_editor']),
});
export type HarborOptions = z.output<typeof harborOptions>;

/** The task folders that a path names, sorted. */
function foldersOf(field: string, folder: string): string[] {
  if (!isFolder(folder)) throw new UserInputError(field, folder, 'give a folder that exists');
  if (isTask(folder)) return [folder];
  const found = readdirSync(folder)
    .toSorted()
    .map((name) => join(folder, name))
    .filter(isTask);
  if (found.length > 0) return found;
  throw new UserInputError(field, folder, 'give a folder with task.toml or task.yaml, or a folder of such folders');
}

function split(name: string, given: string | readonly string[], options: HarborOptions, io: EnvironmentIo): string[] {
  const all = [given].flat().flatMap((one) => foldersOf(`data.${name}`, io.path(`data.${name}`, one)));
  const wanted = all.filter((folder) => {
    const own = basename(folder);
    return (options.tasks?.includes(own) ?? true) && !options.except.includes(own);
  });
  if (wanted.length === 0) throw new UserInputError('tasks', options.tasks, `name folders of data.${name}`);
  return wanted;
}

export const harbor: Environment<HarborOptions> = {
  name: 'harbor',
  options: harborOptions,

  async open(options, io): Promise<Dataset> {
    const folders = Object.fromEntries(
      Object.entries(options.data).map(([name, given]) => [name, split(name, given, options, io)]),
    );
    const folderOf = (name: string, index: number): string => {
      const folder = folders[name]?.[index];
      if (folder === undefined)
        throw new UnknownTask(`${name}-${index}`, 'expected a split and an index of its folders');
      return folder;
    };
    const digests = Object.entries(folders).map(([name, all]) => [name, all.map(digestOfFolder)]);
    const { data: _data, ...others } = options;
    return await Promise.resolve({
      digest: createHash('sha256')
        .update(JSON.stringify([digests, others]))
        .digest('hex'),
      splits: Object.fromEntries(Object.entries(folders).map(([name, all]) => [name, all.length])),
      label: (name, index) => basename(folderOf(name, index)),
      load: async (name, index) =>
        await Promise.resolve(taskOf(readTask(folderOf(name, index), options.network === 'drop'), options)),
    });
  },
};
