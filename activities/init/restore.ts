/**
 * Replaces a lost sandbox by a fresh one in the same state: the attempt's recorded calls are run again in it, and its
 * digest is compared. The policy is not sampled, and no recorded answer changes.
 */

import { keptAlive, sandboxLeases } from '../../sandboxes/leases.ts';
import type { SandboxProvider } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { RestoreInput } from '../../protocol/stages.ts';
import { keys, type RestoredRecord, sandboxKey } from '../../protocol/records.ts';
import { actsOf } from '../../store/read-records.ts';
import { toolsOf } from '../../agents/tools/registry.ts';
import { repeatStep } from '../agent-run/environment-step.ts';
import { replayTurns } from '../agent-run/tool-calls.ts';

export interface RestoreDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
  readonly provider: SandboxProvider;
  readonly host: string;
  readonly sandboxTtlSeconds: number;
}

/** Removes the lost sandbox and its lease, so that its room is free, on whatever host it was. */
export async function forgetLost(
  input: RestoreInput,
  { store, provider }: Pick<RestoreDeps, 'store' | 'provider'>,
): Promise<void> {
  const lost = sandboxKey(input, input.restore - 1);
  await provider.destroy(lost);
  await store.releaseLease(lost);
}

/**
 * A repeated call returns the same sandbox, and does not touch one in which the attempt has acted since.
 * Errors: `RestoreFailed`; `SandboxLost` if it was restored and is lost again; those of `create`.
 */
export async function restoreSandbox(input: RestoreInput, deps: RestoreDeps): Promise<string> {
  const { store, tasks, provider, host, sandboxTtlSeconds } = deps;
  const id = sandboxKey(input, input.restore);
  if (await store.get<RestoredRecord>(keys.restored(id))) {
    (await provider.connect(id)).close();
    return id;
  }
  const leases = sandboxLeases(store, host, Number.MAX_SAFE_INTEGER);
  const spec = { ...(await tasks.sandboxOf(input)), id, ttlSeconds: sandboxTtlSeconds };
  const sandbox = await provider.create(spec);
  try {
    const turns = [...(await actsOf(store, input))];
    const { toolTimeoutSeconds } = input;
    const { task, modules } = await tasks.load(input);
    const { signal } = new AbortController();
    const stepping = { attempt: input, task, sandbox, place: deps, signal };
    const acting = {
      attempt: input,
      tools: task.tools,
      registry: toolsOf(modules),
      sandbox,
      store,
      repeatStep: (turn: number) => repeatStep(stepping, turn),
      toolTimeoutSeconds,
    };
    await keptAlive(leases, sandbox, input.rollout, sandboxTtlSeconds, () => replayTurns(acting, turns));
    await store.putOnce<RestoredRecord>(keys.restored(id), { turn: turns.at(-1)?.[0] ?? 0 });
  } finally {
    sandbox.close();
  }
  return id;
}
