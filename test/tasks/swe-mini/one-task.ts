/** A task of swe-mini as workers use it: its sandbox, its artifact, and its grade. */

import { contextOver, freshContext } from '../../../activities/task-context.ts';
import type { Verdict } from '../../../protocol/stages.ts';
import type { Sandbox, SandboxProvider, SandboxSpec } from '../../../sandboxes/sandbox.ts';
import type { Task } from '../../../tasks/environment.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';

const loader = new TaskLoader();
const { signal } = new AbortController();
const ask = () => Promise.reject(new Error('swe-mini asks no judge'));
const asks = { ask, deadline: Number.POSITIVE_INFINITY };

export async function taskOf(key: string): Promise<Task> {
  return (await loader.load({ task: key })).task;
}

export async function specOf(key: string, id: string): Promise<SandboxSpec> {
  const { network: _, ...machine } = await loader.sandboxOf({ task: key });
  return { ...machine, id, ttlSeconds: 60 };
}

export async function collect(key: string, sandbox: Sandbox, provider: SandboxProvider): Promise<Uint8Array> {
  const named = { key, id: `${sandbox.id}/collect-1`, execution: 1, signal, ...asks };
  return (await (await taskOf(key)).collect?.(contextOver({ main: sandbox }, provider, named))) ?? new Uint8Array();
}

export async function grade(
  key: string,
  artifact: Uint8Array,
  provider: SandboxProvider,
  id: string,
): Promise<Verdict> {
  const task = await taskOf(key);
  const ctx = freshContext(task, provider, 60, { key, id, execution: 1, signal, ...asks });
  return task.grade(ctx, {
    transcript: [],
    answer: '',
    finish: 'finish-tool',
    turns: 1,
    artifact,
    state: undefined,
    turnRewards: [],
  });
}
