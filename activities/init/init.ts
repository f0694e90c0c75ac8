/**
 * The `init` queue: prepares the sandboxes of an attempt, and restores lost ones. The same attempt always gets the same
 * sandboxes.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { acquireAll, memoryOf } from '../../sandboxes/leases.ts';
import { SandboxImpossible, SandboxLost, type SandboxProvider, type SandboxSpec } from '../../sandboxes/sandbox.ts';
import type { LeaseRoom, Store } from '../../store/store.ts';
import { hasSandbox, type Task } from '../../tasks/environment.ts';
import { checkSandboxes } from '../../tasks/resources.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { InitActivities } from '../../protocol/activities.ts';
import type { Asking, Attempt, Card, RestoreInput, SandboxRef } from '../../protocol/stages.ts';
import { type AskDeps, patienceWithJudges } from '../ask.ts';
import { wasCancelled } from '../heartbeat.ts';
import { orAborted } from '../or-aborted.ts';
import type { GenerateRecord } from '../../protocol/records.ts';
import { attemptKey, keys, sandboxKey } from '../../protocol/record-keys.ts';
import { closeAll, connectAll, createAll, endAll, mainOf, refTo, specsOf, type TaskSpecs } from '../task-sandboxes.ts';
import type { AgentProgram } from '../../agents/agent.ts';
import { cardOfProgram, programOfTask } from '../../tasks/program-of-task.ts';
import { checkWorkersLost, tried } from '../tries.ts';
import { RestoreFailed } from '../failures.ts';
import { forgetLost, recordMcp, restoreSandboxes } from './restore.ts';
import { startTask } from './start.ts';

export interface InitDeps extends AskDeps {
  readonly tasks: TaskLoader;
  readonly provider: SandboxProvider;
  readonly host: string;
  /** Live sandboxes that this host may hold: the leases in the store are the authority. */
  readonly maxLiveSandboxes: number;
  /** Memory that they may claim together. Absent: no limit. */
  readonly sandboxMemoryMiB?: number;
  readonly sandboxTtlSeconds: number;
}

const LEASE_POLL_MS = 200;

/** Errors: `SandboxImpossible` if the sandboxes would not fit on this host if it held no others. */
function mustFit(specs: readonly SandboxSpec[], task: string, room: LeaseRoom): void {
  const memory = specs.reduce((sum, spec) => sum + memoryOf(spec), 0);
  if (memory > room.memoryMiB)
    throw new SandboxImpossible(
      `${task} needs ${memory} MiB for its sandboxes, and this host may give ${room.memoryMiB}: ` +
        `lower resources.memoryMiB or diskMiB of the task, or set LONGHAUL_SANDBOX_MEMORY to at least ${memory}`,
    );
  if (specs.length > room.leases)
    throw new SandboxImpossible(
      `${task} needs ${specs.length} sandboxes, and this host may hold ${room.leases}: ` +
        `set LONGHAUL_MAX_SANDBOXES to at least ${specs.length}`,
    );
}

/**
 * Leases all or none, so that no two tasks wait for each other's halves. Waits without a limit: the caller's heartbeats
 * continue meanwhile, and its cancellation ends the wait.
 */
async function leaseFor(specs: TaskSpecs, input: Attempt, deps: InitDeps, signal: AbortSignal): Promise<void> {
  const { store, host, maxLiveSandboxes: leases, sandboxMemoryMiB: memoryMiB = Number.MAX_SAFE_INTEGER } = deps;
  const all = [...specs.values()];
  const room = { leases, memoryMiB };
  mustFit(all, input.task, room);
  while (!(await acquireAll(all, input.rollout, { store, host, room })))
    await sleep(LEASE_POLL_MS, undefined, { signal });
}

/**
 * True if answers of the attempt are recorded, or if a program has worked in it. A workflow that was terminated and
 * started again reads them from the store: a fresh sandbox would lack what its tools changed, and the attempt would be
 * graded without that.
 */
async function hasActed(input: Attempt, store: Store): Promise<boolean> {
  if ((await store.list(keys.answers(input))).length > 0 || (await store.begun(keys.program(input))) > 0) return true;
  const first = await store.get<GenerateRecord>(keys.generate(input, 1));
  return first?.reported === true || first?.call !== undefined;
}

type Progress = (detail: unknown) => void;

/** Waits for the sandboxes' images, and reports the progress. The wait ends if nobody needs the sandboxes any more. */
async function imagesOf(
  specs: TaskSpecs,
  { provider }: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<void> {
  for (const spec of specs.values()) await orAborted(async () => provider.prepare?.(spec, progress), signal);
  progress(null);
}

async function recordStarted({ run, rollout, attempt }: Attempt, { store }: InitDeps): Promise<void> {
  await store.append([{ run, rollout, attempt, event: 'started', at: new Date().toISOString() }]);
}

/**
 * Errors: `SandboxLost` if a program with a gateway has begun. Its calls belong to a workflow that was terminated: the
 * one that was started again would give their turns to other calls.
 */
async function refuseCalled(input: Attempt, program: AgentProgram | undefined, store: Store): Promise<void> {
  if (program?.gateway && (await store.begun(keys.program(input))) > 0)
    throw new SandboxLost(`${attemptKey(input)}: its program has called another execution of the rollout`);
}

/**
 * Errors: `SandboxLost` if the attempt's tools acted in a sandbox that is lost: the next attempt starts from the
 * beginning.
 */
async function make(
  input: Attempt & Asking,
  ref: SandboxRef,
  { task, specs, program }: Placed,
  deps: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<void> {
  const { store, provider } = deps;
  await refuseCalled(input, program, store);
  const acted = await hasActed(input, store);
  if (!acted) await imagesOf(specs, deps, signal, progress);
  const made = acted ? await connectAll(provider, ref) : await createAll(provider, specs);
  try {
    if (!acted) {
      await startTask({ attempt: input, task, sandboxes: made, place: deps, signal });
      if (task.mcp) await recordMcp(input, task.mcp, mainOf(made), store, signal);
    }
  } finally {
    closeAll(made);
  }
  if (wasCancelled(signal)) signal.throwIfAborted();
  await recordStarted(input, deps);
}

/** Removes sandboxes and leases. If this fails too, the leases expire and the sweeper removes the rest. */
async function unmake(ref: SandboxRef, { store, provider }: InitDeps): Promise<void> {
  try {
    await endAll(provider, (id) => store.releaseLease(id), ref);
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

/** A task, and what its sandboxes are made of for one attempt. */
interface Placed {
  readonly task: Task;
  readonly specs: TaskSpecs;
  /** The agent, if it is one. */
  readonly program: AgentProgram | undefined;
}

/** `main`: the id of its `main` sandbox. */
function placedOf(
  { task, program }: Pick<Placed, 'task' | 'program'>,
  input: Attempt,
  main: string,
  { host, sandboxTtlSeconds }: InitDeps,
): { readonly placed: Placed; readonly ref: SandboxRef } {
  const specs = specsOf(task, input.task, main, sandboxTtlSeconds);
  return { placed: { task, specs, program }, ref: refTo(specs, main, host, sandboxTtlSeconds) };
}

/** What the workflow must know. */
function cardOf(
  { resources, gradedIn = 'fresh' }: Task,
  sandbox: SandboxRef | null,
  program: AgentProgram | undefined,
): Card {
  const { toolSeconds, gradeSeconds } = resources ?? {};
  const limits = {
    ...(toolSeconds !== undefined && { toolSeconds }),
    ...(gradeSeconds !== undefined && { gradeSeconds }),
  };
  return {
    sandbox,
    gradedIn,
    ...(Object.keys(limits).length > 0 && { limits }),
    ...(program && { program: cardOfProgram(program) }),
  };
}

/**
 * Restores the sandboxes under leases. If that fails, sandboxes and leases are removed, unless the attempt has acted
 * there.
 */
async function restored(input: RestoreInput, deps: InitDeps, signal: AbortSignal, progress: Progress): Promise<Card> {
  const { store } = deps;
  const { task, modules } = await deps.tasks.load(input);
  const sandbox = sandboxKey(input, input.restore);
  const program = programOfTask(task, input.agent, modules);
  const { placed, ref } = placedOf({ task, program }, input, sandbox, deps);
  const card = cardOf(task, ref, program);
  await forgetLost(input, task, deps);
  if (await store.get(keys.collect(input))) return card;
  if (program) throw new RestoreFailed(`${attemptKey(input)}: what a program did in its sandbox cannot be repeated`);
  await checkWorkersLost(store);
  await leaseFor(placed.specs, input, deps, signal);
  const key = `restore:${sandbox}`;
  const execution = await store.begin(key);
  try {
    await imagesOf(placed.specs, deps, signal, progress);
    await restoreSandboxes(input, task, placed.specs, deps, signal);
    if (wasCancelled(signal)) signal.throwIfAborted();
  } catch (error) {
    const acted =
      !(error instanceof SandboxLost) && (await store.get(keys.restored(sandbox)).catch(() => true)) !== undefined;
    const mayEnd = (wasCancelled(signal) || (!signal.aborted && !acted)) && (await isLatest(key, execution, deps));
    if (mayEnd) await unmake(ref, deps);
    throw error;
  }
  const { run, rollout, attempt, restore } = input;
  await store.append([
    { run, rollout, attempt, event: 'restored', at: new Date().toISOString(), detail: String(restore) },
  ]);
  return card;
}

/** Makes the attempt's sandboxes, or finds those that it has. */
async function prepareSandboxes(
  input: Attempt & Asking,
  at: Pick<Placed, 'task' | 'program'>,
  deps: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<SandboxRef> {
  const sandbox = attemptKey(input);
  const { placed, ref } = placedOf(at, input, sandbox, deps);
  // Nothing remains to be done in them.
  if (await deps.store.get(keys.collect(input))) return ref;
  await checkWorkersLost(deps.store);
  await leaseFor(placed.specs, input, deps, signal);
  const key = `init:${sandbox}`;
  const execution = await deps.store.begin(key);
  try {
    await make(input, ref, placed, deps, signal, progress);
    return ref;
  } catch (error) {
    // If the server gave this execution up, and not the workflow, a retry may use this sandbox by now.
    const mayEnd = (!signal.aborted || wasCancelled(signal)) && (await isLatest(key, execution, deps));
    if (mayEnd && !(await holdsWork(error, input, signal, deps))) await unmake(ref, deps);
    throw error;
  }
}

export function createInitActivities(deps: InitDeps): InitActivities {
  const limitsOf = (input: Asking) => ({ store: deps.store, place: 'init', ...patienceWithJudges(input) }) as const;
  return {
    restoreSandbox: (input) => tried(limitsOf(input), (signal, progress) => restored(input, deps, signal, progress)),

    prepare: (input) =>
      tried(limitsOf(input), async (signal, progress) => {
        const { task, modules } = await deps.tasks.load(input);
        const program = programOfTask(task, input.agent, modules);
        if (hasSandbox(task))
          return cardOf(task, await prepareSandboxes(input, { task, program }, deps, signal, progress), program);
        checkSandboxes(task, input.task);
        await checkWorkersLost(deps.store);
        await startTask({ attempt: input, task, sandboxes: {}, place: deps, signal });
        if (task.mcp) await recordMcp(input, task.mcp, undefined, deps.store, signal);
        await recordStarted(input, deps);
        return cardOf(task, null, program);
      }),
  };
}
