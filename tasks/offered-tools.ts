/** The tools that an attempt's policy may call: those that its task lists. */

import type { Toolbox } from '../agents/tools/toolbox.ts';
import type { Attempt } from '../protocol/stages.ts';
import type { Store } from '../store/store.ts';
import type { TaskLoader, TaskRef } from './task-loader.ts';

/** Errors: those of `TaskLoader.load`. */
export async function offeredTools(
  attempt: TaskRef & Pick<Attempt, 'rollout' | 'attempt'>,
  { tasks }: { readonly store: Pick<Store, 'get'>; readonly tasks: TaskLoader },
): Promise<Toolbox> {
  return (await tasks.load(attempt)).toolbox;
}
