/**
 * Calls a task's `start`: once per attempt, and again in the sandboxes that replace lost ones, where it must give what
 * is recorded. Its record never changes.
 */

import { isDeepStrictEqual } from 'node:util';
import type { Message } from '../../protocol/message.ts';
import type { StartRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import type { Asking, Attempt } from '../../protocol/stages.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import { MAIN, type Task } from '../../tasks/environment.ts';
import { type AskDeps, withAsk } from '../ask.ts';
import { EnvironmentFailed, RestoreFailed } from '../failures.ts';
import { blameOwnCode } from '../own-code.ts';
import { OwnClock, within } from '../own-time.ts';
import { contextOver, type SandboxPlace, withFurtherSandboxes } from '../task-context.ts';
import { mainOf, type TaskSandboxes } from '../task-sandboxes.ts';

/** An attempt that starts. */
export interface Starting {
  readonly attempt: Attempt & Asking;
  readonly task: Task;
  /** The attempt's own; empty if the task has none. */
  readonly sandboxes: TaskSandboxes;
  readonly place: SandboxPlace & AskDeps;
  readonly signal: AbortSignal;
}

type Started = Pick<StartRecord, 'state' | 'messages'>;

/** Errors: `EnvironmentFailed` if `start` throws, takes too long or returns what cannot be used. */
async function callStart({ attempt, task, sandboxes, place, signal }: Starting, execution: number): Promise<Started> {
  const id = `${attemptKey(attempt)}/start`;
  const seconds = task.resources?.setUpSeconds ?? Number.POSITIVE_INFINITY;
  const over = () =>
    new EnvironmentFailed(`start of ${attempt.task} took longer than ${seconds} s (resources.setUpSeconds)`);
  const result = await withFurtherSandboxes(place, attempt.rollout, (further) =>
    within({ ms: seconds * 1000, clock: new OwnClock(), over }, signal, (own) =>
      withAsk({ attempt, place: 'start', signal: own, withinMs: seconds * 1000 }, place, async (asks) =>
        task.start?.(contextOver(sandboxes, further, { key: attempt.task, id, execution, signal: own, ...asks })),
      ),
    ),
  ).catch((error: unknown) => blameOwnCode(error, 'start', (message) => new EnvironmentFailed(message)));
  const { state, messages } = (result ?? {}) as { readonly state?: unknown; readonly messages?: readonly Message[] };
  if (state === undefined || (messages !== undefined && !Array.isArray(messages)))
    throw new EnvironmentFailed(`start of ${attempt.task} must return { state, messages }`);
  return { state, ...(messages && { messages }) };
}

/** Calls the task's `start` if the attempt has no record of it. */
export async function startTask(starting: Starting): Promise<void> {
  const { attempt, task, sandboxes, place } = starting;
  const key = keys.start(attempt);
  if (task.start === undefined || (await place.store.get(key)) !== undefined) return;
  const started = await callStart(starting, await place.store.begin(key));
  const sandbox = sandboxes[MAIN];
  const digest = sandbox && (await workspaceDigest(sandbox, `${attemptKey(attempt)}/start/digest`));
  await place.store.putOnce<StartRecord>(key, { ...started, ...(digest && { digest }) });
}

/** As JSON, which is what a record is. */
const written = (started: Started): unknown => JSON.parse(JSON.stringify(started));

/**
 * Calls `start` again in the fresh sandboxes. A repeated call of this attaches to what ran there.
 * Errors: `RestoreFailed` if it gives another state, other messages or another workspace than it did.
 */
export async function repeatStart(starting: Starting): Promise<void> {
  const { attempt, task, sandboxes, place } = starting;
  const known = await place.store.get<StartRecord>(keys.start(attempt));
  if (task.start === undefined || known === undefined) return;
  const name = attemptKey(attempt);
  const main = mainOf(sandboxes);
  const { digest, ...recorded } = known;
  if (digest === undefined) throw new RestoreFailed(`${name}: start left no digest to compare with`);
  await place.store.begin(`replay:${main.id}/start`);
  // The journal of these sandboxes is new: the first execution's call ids run there once.
  const started = await callStart(starting, 1);
  if (!isDeepStrictEqual(written(started), written(recorded)))
    throw new RestoreFailed(`${name}: start gave another state or other messages in the new sandbox`);
  const now = await workspaceDigest(main, `${name}/start/digest`);
  if (now !== digest)
    throw new RestoreFailed(
      `${name}: start left a workspace with the digest ${digest.slice(0, 12)}, ` +
        `and ${now?.slice(0, 12) ?? 'none'} in the new sandbox`,
    );
}
