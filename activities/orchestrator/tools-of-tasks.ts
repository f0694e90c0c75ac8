/**
 * The folders of tools of a run's or an eval's tasks, with their digests when it was opened first: opened again with
 * other packages, it is refused, since its rollouts before and after would not be of the same agent.
 */

import { realpathSync } from 'node:fs';
import { toolsDigest } from '../../sandboxes/tools-digest.ts';
import type { ToolsGuard } from '../../sandboxes/tools-folder.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import type { TaskLoader, TaskRef } from '../../tasks/task-loader.ts';

/** By the folder's path. */
export type ToolsDigests = Readonly<Record<string, string>>;

export interface ToolsDeps {
  readonly tasks: TaskLoader;
  /** Absent: sandboxes see no folder of tools. */
  readonly guardTools?: ToolsGuard | undefined;
}

/** Empty if the task or its sandboxes cannot be made: its rollouts say why. */
async function foldersOf(ref: TaskRef, { tasks }: ToolsDeps): Promise<readonly string[]> {
  try {
    const { task } = await tasks.load(ref);
    return Object.values(task.sandboxes ?? {}).flatMap(({ toolsFolder }) => toolsFolder ?? []);
  } catch {
    return [];
  }
}

/** `undefined` if the folder is not on this host, or not allowed: sandboxes may be made on other hosts. */
async function digestOf(folder: string, guard: ToolsGuard): Promise<string | undefined> {
  try {
    const real = realpathSync(folder);
    guard(real);
    return await toolsDigest(real);
  } catch {
    return undefined;
  }
}

/** `refs`: one task of each source. `undefined`: their sandboxes see no folder of tools, or none of this host. */
export async function toolsOfTasks(refs: readonly TaskRef[], deps: ToolsDeps): Promise<ToolsDigests | undefined> {
  const { guardTools } = deps;
  if (guardTools === undefined) return undefined;
  const folders = new Set<string>();
  for (const ref of refs) for (const folder of await foldersOf(ref, deps)) folders.add(folder);
  const digests: Record<string, string> = {};
  for (const folder of folders) {
    const digest = await digestOf(folder, guardTools);
    if (digest !== undefined) digests[folder] = digest;
  }
  return Object.keys(digests).length === 0 ? undefined : digests;
}

/** `what`: `run NAME` or `eval NAME`. Errors: `UserInputError` for a folder with other packages than at its start. */
export function refuseOtherTools(
  what: string,
  { began = {}, now = {} }: { readonly began?: ToolsDigests | undefined; readonly now?: ToolsDigests | undefined },
): void {
  const changed = Object.keys(began).find((folder) => now[folder] !== undefined && now[folder] !== began[folder]);
  if (changed === undefined) return;
  throw new UserInputError(
    'toolsFolder',
    changed,
    `its packages have changed since ${what} started: install the same versions again, or give another name`,
  );
}
