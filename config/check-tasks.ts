/** Checks, before anything starts, that an environment has the tasks that a run or an eval uses. */

import { toolNamed } from '../agents/tools/registry.ts';
import { environmentNamed, environmentOf } from '../tasks/registry.ts';
import { messageWithPlace } from '../modules/own-frame.ts';
import type { Environment, Split } from '../tasks/task.ts';
import type { RunConfig } from '../protocol/run-config.ts';
import { UserInputError } from '../protocol/user-input-error.ts';

export interface AskedTasks {
  readonly name: string;
  readonly split: Split;
  readonly from: number;
  readonly count: number;
  /** The settings' names, for messages. */
  readonly fields: { readonly name: string; readonly count: string };
}

/** Errors: `UserInputError` for an unknown environment. */
function environment(name: string, field: string): Environment {
  try {
    return environmentNamed(name);
  } catch (error) {
    throw new UserInputError(field, name, `give a known environment (${messageWithPlace(error)})`, { cause: error });
  }
}

/** Errors: those of loading the task; `TypeError` for an invalid task. */
export function checkTask(taskId: string): void {
  const { messages, tools } = environmentOf(taskId).load(taskId);
  if (!Array.isArray(messages) || messages.length === 0)
    throw new TypeError(`task ${taskId} has no messages: load must return a list of them`);
  if (!Array.isArray(tools)) throw new TypeError(`task ${taskId} has no list of tools: load must return their names`);
  for (const tool of tools) toolNamed(tool);
}

/**
 * Loads the first and the last task. Errors: `UserInputError`, for the name if the first task does not load, else for
 * the count.
 */
export function checkAskedTasks({ name, split, from, count, fields }: AskedTasks): void {
  const known = environment(name, fields.name);
  const load = (index: number): unknown => {
    try {
      checkTask(known.taskId(split, index));
      return undefined;
    } catch (error) {
      return error;
    }
  };
  const size = known.size?.(split) ?? Infinity;
  if (from + count > size) {
    const room = Math.max(0, size - from);
    throw new UserInputError(
      fields.count,
      count,
      room === 0
        ? `${name} has ${size} ${split} tasks`
        : `give at most ${room}: ${name} has ${size} ${split} tasks${from > 0 ? `, and the first one is ${from}` : ''}`,
    );
  }
  const first = load(from);
  if (first !== undefined && from === 0)
    throw new UserInputError(fields.name, name, `fix its first ${split} task (${messageWithPlace(first)})`, {
      cause: first,
    });
  const last = first ?? load(from + count - 1);
  if (last !== undefined)
    throw new UserInputError(
      fields.count,
      count,
      `give less: ${split} task ${from + count - 1} of ${name} cannot be loaded (${messageWithPlace(last)})`,
      { cause: last },
    );
}

/** Errors: `UserInputError` for an unknown environment, or more training or held-out tasks than it has. */
export function checkTasksOfRun({ task, evaluation }: Pick<RunConfig, 'task' | 'evaluation'>): void {
  checkAskedTasks({
    name: task.name,
    split: 'train',
    from: 0,
    count: task.train,
    fields: { name: 'task.name', count: 'task.train' },
  });
  checkAskedTasks({
    name: task.name,
    split: 'held-out',
    from: 0,
    count: evaluation.tasks,
    fields: { name: 'task.name', count: 'evaluation.tasks' },
  });
}
