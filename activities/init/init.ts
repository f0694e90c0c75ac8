/**
 * The `init` queue: prepares one sandbox per attempt, and restores those that were lost. The same attempt always gets the
 * same sandbox.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { sandboxLeases } from '../../sandboxes/leases.ts';
import { SandboxLost, type SandboxProvider, type SandboxSpec } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import { environmentOf } from '../../tasks/registry.ts';
import type { InitActivities } from '../../protocol/activities.ts';
import type { Attempt, RestoreInput, SandboxRef } from '../../protocol/stages.ts';
import { wasCancelled } from '../heartbeat.ts';
import { orAborted } from '../or-aborted.ts';
import { attemptKey, keys, sandboxKey } from '../../protocol/records.ts';
import { checkWorkersLost, tried } from '../tries.ts';
import { forgetLost, restoreSandbox } from './restore.ts';

export interface InitDeps {
  readonly store: Store;
  readonly provider: SandboxProvider;
  readonly host: string;
  /** Live sandboxes that this host may hold: the leases in the store are the authority. */
  readonly maxLiveSandboxes: number;
  readonly sandboxTtlSeconds: number;
}

const LEASE_POLL_MS = 200;

/** Waits as long as it takes: the caller's heartbeats go on meanwhile, and its cancellation ends the wait. */
async function leaseFor(id: string, owner: string, deps: InitDeps, signal: AbortSignal): Promise<void> {
  const leases = sandboxLeases(deps.store, deps.host, deps.maxLiveSandboxes);
  while (!(await leases.acquire(id, owner, deps.sandboxTtlSeconds))) {
    await sleep(LEASE_POLL_MS, undefined, { signal });
  }
}

/**
 * A workflow that was terminated and started again takes what it did from the store: a fresh sandbox would lack what its
 * tools changed, and the attempt would be graded without that.
 */
const hasActed = async (input: Attempt, store: Store) => (await store.list(keys.answers(input))).length > 0;

const specOf = ({ task }: Attempt, sandbox: string, { sandboxTtlSeconds }: InitDeps): SandboxSpec => ({
  ...environmentOf(task).sandbox(task, sandbox),
  ttlSeconds: sandboxTtlSeconds,
});

type Progress = (detail: unknown) => void;

/** Whoever waits for an image hears what it waits for, and need not wait when nobody wants its sandbox any more. */
async function imageOf(
  spec: SandboxSpec,
  { provider }: InitDeps,
  signal: AbortSignal,
  progress: Progress,
): Promise<void> {
  await orAborted(async () => provider.prepare?.(spec, progress), signal);
  progress(null);
}

/** Errors: `SandboxLost` where the attempt's tools acted in a sandbox that is gone: the next attempt begins anew. */
async function make(input: Attempt, deps: InitDeps, signal: AbortSignal, progress: Progress): Promise<SandboxRef> {
  const { store, provider, host, sandboxTtlSeconds } = deps;
  const sandbox = attemptKey(input);
  const acted = await hasActed(input, store);
  const spec = specOf(input, sandbox, deps);
  if (!acted) await imageOf(spec, deps, signal, progress);
  const made = acted ? await provider.connect(sandbox) : await provider.create(spec);
  made.close();
  if (wasCancelled(signal)) signal.throwIfAborted();
  const { run, rollout, attempt } = input;
  await store.append([{ run, rollout, attempt, event: 'started', at: new Date().toISOString() }]);
  return { sandbox, host, ttlSeconds: sandboxTtlSeconds };
}

/** Leaves no lease and no sandbox behind; where that fails too, the lease runs out and the sweeper takes the rest. */
async function unmake(sandbox: string, { store, provider }: InitDeps): Promise<void> {
  try {
    await provider.destroy(sandbox);
    await store.releaseLease(sandbox);
  } catch {
    // What failed first is what is told.
  }
}

/** A worker that stood still may fail after the server gave it up: the sandbox of this name is another execution's then. */
async function isLatest(key: string, execution: number, { store }: InitDeps): Promise<boolean> {
  return (await store.begun(key)) === execution;
}

/** A sandbox that could not be reached for now, and in which the attempt has acted, is tried again, not ended. */
async function holdsWork(error: unknown, input: Attempt, signal: AbortSignal, { store }: InitDeps): Promise<boolean> {
  if (error instanceof SandboxLost || wasCancelled(signal)) return false;
  return hasActed(input, store).catch(() => true);
}

/** Under the lease; where nothing comes of it, neither lease nor sandbox stays. */
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
    await imageOf(specOf(input, sandbox, deps), deps, signal, progress);
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

export function createInitActivities(deps: InitDeps): InitActivities {
  const limits = { store: deps.store, place: 'init' } as const;
  return {
    restoreSandbox: (input) => tried(limits, (signal, progress) => restored(input, deps, signal, progress)),

    prepareSandbox: (input) =>
      tried(limits, async (signal, progress) => {
        const sandbox = attemptKey(input);
        // Nothing is left to do in it.
        if (await deps.store.get(keys.collect(input)))
          return { sandbox, host: deps.host, ttlSeconds: deps.sandboxTtlSeconds };
        await checkWorkersLost(deps.store);
        await leaseFor(sandbox, input.rollout, deps, signal);
        const key = `init:${sandbox}`;
        const execution = await deps.store.begin(key);
        try {
          return await make(input, deps, signal, progress);
        } catch (error) {
          // Given up on by the server, not by the workflow: a retry may hold this sandbox by now.
          const mayEnd = (!signal.aborted || wasCancelled(signal)) && (await isLatest(key, execution, deps));
          if (mayEnd && !(await holdsWork(error, input, signal, deps))) await unmake(sandbox, deps);
          throw error;
        }
      }),
  };
}
