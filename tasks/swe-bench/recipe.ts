/**
 * A recipe: a folder for each instance that makes its environment in the base image, without a registry: `src.tar.gz`
 * (the sources, in one folder), and, if it needs packages, `requirements.txt` with all their wheels in `wheels/`.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { SandboxFile } from '../../sandboxes/sandbox.ts';
import type { Instance } from './instance.ts';
import { RECIPE } from './prepare.ts';

/** Of the frame that carries a sandbox's files. */
const MOST_BYTES = 60 << 20;

/** The name under which an index would have a wheel or a project. */
const normal = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/gu, '-');

/** Errors: `UserInputError` for a folder that is none, or a wheel of the repository itself, which has the solution. */
export function wheelsOf(folder: string, { repo, id }: Instance): string[] {
  if (!existsSync(join(folder, 'src.tar.gz')))
    throw new UserInputError('task.options.recipe', folder, `put the sources of ${id} there as src.tar.gz`);
  const at = join(folder, 'wheels');
  const wheels = existsSync(at)
    ? readdirSync(at)
        .filter((name) => name.endsWith('.whl'))
        .toSorted()
    : [];
  const project = normal(repo.split('/').at(-1) ?? '');
  const own = wheels.find((name) => normal(name.split('-')[0] ?? '') === project);
  if (own !== undefined)
    throw new UserInputError(
      'task.options.recipe',
      join(at, own),
      `remove it: ${project} is the repository of ${id}, and a release of it may hold the solution`,
    );
  return wheels;
}

/**
 * Everything that is in it, for `RECIPE` in a sandbox. Errors: those of `wheelsOf`; `UserInputError` if it is large.
 */
export function recipeFiles(folder: string, instance: Instance): SandboxFile[] {
  const wheels = wheelsOf(folder, instance).map((name) => join('wheels', name));
  const packages = existsSync(join(folder, 'requirements.txt')) ? ['requirements.txt', ...wheels] : [];
  const names = ['src.tar.gz', ...packages];
  const files = names.map((name) => ({ path: `${RECIPE}/${name}`, content: readFileSync(join(folder, name)) }));
  const bytes = files.reduce((sum, { content }) => sum + content.length, 0);
  if (bytes > MOST_BYTES)
    throw new UserInputError(
      'task.options.recipe',
      folder,
      `it has ${bytes} bytes, at most ${MOST_BYTES} fit: build an image of it, and name it as image`,
    );
  return files;
}
