/**
 * The `init` queue: prepares one sandbox per attempt, and restores lost ones. The same attempt always gets the same
 * sandbox.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { sandboxLeases } from '../../sandboxes/leases.ts';
import { type Sandbox, SandboxLost, type SandboxProvider, type SandboxSpec } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import { hasSandbox, type Task } from '../../tasks/environment.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { InitActivities } from '../../protocol/activities.ts';
import type { Attempt, RestoreInput, SandboxRef } from '../../protocol/stages.ts';
import { wasCancelled } from '../heartbeat.ts';
import { orAborted } from '../or-aborted.ts';
import { attemptKey, keys, type McpRecord, sandboxKey, type StartRecord } from '../../protocol/records.ts';
import { EnvironmentFailed } from '../failures.ts';
import { blameOwnCode } from '../own-code.ts';
import { contextOver, withFurtherSandboxes } from '../task-context.ts';
import { checkWorkersLost, tried } from '../tries.ts';
import { forgetLost, restoreSandbox, startMcp } from './restore.ts';

export interface InitDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
  readonly provider: SandboxProvider;
  readonly host: string;
  /** Live sandboxes that this host may hold: the leases in the store are the authority. */
  readonly maxLiveSandboxes: number;
  readonly sandboxTtlSeconds: number;
}

const LEASE_POLL_MS = 200;

/** Waits without a limit: the caller's heartbeats continue meanwhile, and its cancellation ends the wait. */
async function leaseFor(id: string, owner: string, deps: InitDeps, signal: AbortSignal): Promise<void> {
  const leases = sandboxLeases(deps.store, deps.host, deps.maxLiveSandboxes);
  while (!(await leases.acquire(id, owner, deps.sandboxTtlSeconds))) {
    await sleep(LEASE_POLL_MS, undefined, { signal });
  }
}

/**
 * True if answers of the attempt are recorded. A workflow that was terminated and started again reads them from the
 * store: a fresh sandbox would lack what its tools changed, and the attempt would be graded without that.
 */
const hasActed = async (input: Attempt, store: Store) => (await store.list(keys.answers(input))).length > 0;

async function specOf(input: Attempt, id: string, { tasks, sandboxTtlSeconds }: InitDeps): Promise<SandboxSpec> {
  return { ...(await tasks.sandboxOf(input)), id, ttlSeconds: sandboxTtlSeconds };
}

type Progress = (detail: unknown) => void;

/** Waits for the sandbox's image, and reports the progress. The wait ends if nobody needs the sandbox any more. */
async function imageOf(
  spec: SandboxSpec,
  { provider }: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<void> {
  await orAborted(async () => provider.prepare?.(spec, progress), signal);
  progress(null);
}

async function recordStarted({ run, rollout, attempt }: Attempt, { store }: InitDeps): Promise<void> {
  await store.append([{ run, rollout, attempt, event: 'started', at: new Date().toISOString() }]);
}

/**
 * Errors: `SandboxLost` if the attempt's tools acted in a sandbox that is lost: the next attempt starts from the
 * beginning.
 */
async function make(
  input: Attempt,
  task: Task,
  deps: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<SandboxRef> {
  const { store, provider, host, sandboxTtlSeconds } = deps;
  const sandbox = attemptKey(input);
  const acted = await hasActed(input, store);
  const spec = await specOf(input, sandbox, deps);
  if (!acted) await imageOf(spec, deps, signal, progress);
  const made = acted ? await provider.connect(sandbox) : await provider.create(spec);
  try {
    if (!acted) {
      await start(input, task, made, deps, signal);
      if (task.mcp) await store.putOnce<McpRecord>(keys.mcp(input), await startMcp(input, task.mcp, made));
    }
  } finally {
    made.close();
  }
  if (wasCancelled(signal)) signal.throwIfAborted();
  await recordStarted(input, deps);
  return { sandbox, host, ttlSeconds: sandboxTtlSeconds };
}

/** Removes sandbox and lease. If this fails too, the lease expires and the sweeper removes the rest. */
async function unmake(sandbox: string, { store, provider }: InitDeps): Promise<void> {
  try {
    await provider.destroy(sandbox);
    await store.releaseLease(sandbox);
  } catch {
    // The first failure is reported.
  }
}

/** A frozen worker may fail after the server gave it up: then the sandbox of this name belongs to another execution. */
async function isLatest(key: string, execution: number, { store }: InitDeps): Promise<boolean> {
  return (await store.begun(key)) === execution;
}

/** True if the sandbox is only unreachable for now, and the attempt has acted in it: then it is kept for a retry. */
async function holdsWork(error: unknown, input: Attempt, signal: AbortSignal, { store }: InitDeps): Promise<boolean> {
  if (error instanceof SandboxLost || wasCancelled(signal)) return false;
  return hasActed(input, store).catch(() => true);
}

/**
 * Restores the sandbox under a lease. If that fails, sandbox and lease are removed, unless the attempt has acted there.
 */
async function restored(
  input: RestoreInput,
  deps: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<SandboxRef> {
  const { store, host, sandboxTtlSeconds } = deps;
  const sandbox = sandboxKey(input, input.restore);
  const made = { sandbox, host, ttlSeconds: sandboxTtlSeconds };
  await forgetLost(input, deps);
  if (await store.get(keys.collect(input))) return made;
  await checkWorkersLost(store);
  await leaseFor(sandbox, input.rollout, deps, signal);
  const key = `restore:${sandbox}`;
  const execution = await store.begin(key);
  try {
    await imageOf(await specOf(input, sandbox, deps), deps, signal, progress);
    await restoreSandbox(input, deps);
    if (wasCancelled(signal)) signal.throwIfAborted();
  } catch (error) {
    const acted =
      !(error instanceof SandboxLost) && (await store.get(keys.restored(sandbox)).catch(() => true)) !== undefined;
    const mayEnd = (wasCancelled(signal) || (!signal.aborted && !acted)) && (await isLatest(key, execution, deps));
    if (mayEnd) await unmake(sandbox, deps);
    throw error;
  }
  const { run, rollout, attempt, restore } = input;
  await store.append([
    { run, rollout, attempt, event: 'restored', at: new Date().toISOString(), detail: String(restore) },
  ]);
  return made;
}

/** Makes the attempt's sandbox, or finds the one that it has. */
async function prepareSandbox(
  input: Attempt,
  task: Task,
  deps: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<SandboxRef> {
  const sandbox = attemptKey(input);
  // Nothing remains to be done in it.
  if (await deps.store.get(keys.collect(input)))
    return { sandbox, host: deps.host, ttlSeconds: deps.sandboxTtlSeconds };
  await checkWorkersLost(deps.store);
  await leaseFor(sandbox, input.rollout, deps, signal);
  const key = `init:${sandbox}`;
  const execution = await deps.store.begin(key);
  try {
    return await make(input, task, deps, signal, progress);
  } catch (error) {
    // If the server gave this execution up, and not the workflow, a retry may use this sandbox by now.
    const mayEnd = (!signal.aborted || wasCancelled(signal)) && (await isLatest(key, execution, deps));
    if (mayEnd && !(await holdsWork(error, input, signal, deps))) await unmake(sandbox, deps);
    throw error;
  }
}

/** Calls the task's `start`, once for each attempt. `sandbox`: the attempt's own; `undefined` if the task has none. */
async function start(
  input: Attempt,
  task: Task,
  sandbox: Sandbox | undefined,
  deps: InitDeps,
  signal: AbortSignal,
): Promise<void> {
  const { store } = deps;
  if (task.start === undefined || (await store.get(keys.start(input))) !== undefined) return;
  const id = `${attemptKey(input)}/start`;
  const execution = await store.begin(`start:${attemptKey(input)}`);
  const result = await withFurtherSandboxes(deps, input.rollout, async (further) =>
    task.start?.(contextOver(sandbox, further, { key: input.task, id, execution, signal })),
  ).catch((error: unknown) => blameOwnCode(error, 'start', (message) => new EnvironmentFailed(message)));
  const { state, messages } = result ?? {};
  if (state === undefined || (messages !== undefined && !Array.isArray(messages)))
    throw new EnvironmentFailed(`start of ${input.task} must return { state, messages }`);
  await store.putOnce<StartRecord>(keys.start(input), { state, ...(messages && { messages }) });
}

export function createInitActivities(deps: InitDeps): InitActivities {
  const limits = { store: deps.store, place: 'init' } as const;
  return {
    restoreSandbox: (input) => tried(limits, (signal, progress) => restored(input, deps, signal, progress)),

    prepare: (input) =>
      tried(limits, async (signal, progress) => {
        const { task } = await deps.tasks.load(input);
        const { gradedIn = 'fresh' } = task;
        if (hasSandbox(task)) return { sandbox: await prepareSandbox(input, task, deps, signal, progress), gradedIn };
        await checkWorkersLost(deps.store);
        await start(input, task, undefined, deps, signal);
        await recordStarted(input, deps);
        return { sandbox: null, gradedIn: 'fresh' };
      }),
  };
}
