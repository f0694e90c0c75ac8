/** What an attempt's agent is shown first: the messages of the environment's `start`, or the task's own. */

import type { StartRecord } from '../protocol/records.ts';
import { keys } from '../protocol/record-keys.ts';
import type { Message } from '../protocol/message.ts';
import type { Attempt } from '../protocol/stages.ts';
import type { Store } from '../store/store.ts';
import type { TaskLoader, TaskRef } from './task-loader.ts';

/** Errors: those of `TaskLoader.load`. */
export async function openingMessages(
  attempt: TaskRef & Pick<Attempt, 'rollout' | 'attempt'>,
  { store, tasks }: { readonly store: Pick<Store, 'get'>; readonly tasks: TaskLoader },
): Promise<readonly Message[]> {
  const { task } = await tasks.load(attempt);
  if (task.start === undefined) return task.messages;
  return (await store.get<StartRecord>(keys.start(attempt)))?.messages ?? task.messages;
}
