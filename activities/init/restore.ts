/**
 * Replaces lost sandboxes by fresh ones in the same state: the attempt's recorded calls are run again in `main`, and its
 * digest is compared. If one of several was lost, all are replaced. The policy is not sampled, and no recorded answer
 * changes.
 */

import { sandboxLeases } from '../../sandboxes/leases.ts';
import type { SandboxProvider } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import { MAIN, type Task } from '../../tasks/environment.ts';
import type { RestoreInput } from '../../protocol/stages.ts';
import { keys, type RestoredRecord, sandboxKey } from '../../protocol/records.ts';
import { actsOf } from '../../store/read-records.ts';
import { repeatStep } from '../agent-run/environment-step.ts';
import { replayTurns } from '../agent-run/tool-calls.ts';
import {
  allKeptAlive,
  closeAll,
  connectAll,
  createAll,
  endAll,
  mainOf,
  refTo,
  type TaskSpecs,
} from '../task-sandboxes.ts';

export interface RestoreDeps {
  readonly store: Store;
  readonly provider: SandboxProvider;
  readonly host: string;
  readonly sandboxTtlSeconds: number;
}

/** Removes what is left of the lost sandboxes, and their leases, so that their room is free, on whatever host it was. */
export async function forgetLost(
  input: RestoreInput,
  task: Task,
  { store, provider }: Pick<RestoreDeps, 'store' | 'provider'>,
): Promise<void> {
  const others = Object.keys(task.sandboxes ?? {}).filter((name) => name !== MAIN);
  const lost = { sandbox: sandboxKey(input, input.restore - 1), others };
  await endAll(provider, (id) => store.releaseLease(id), lost);
}

/**
 * Makes the sandboxes of `specs`. A repeated call finds the same ones, and does not touch those in which the attempt has acted since.
 * Errors: `RestoreFailed`; `SandboxLost` if it was restored and is lost again; those of `create`.
 */
export async function restoreSandboxes(
  input: RestoreInput,
  task: Task,
  specs: TaskSpecs,
  deps: RestoreDeps,
): Promise<void> {
  const { store, provider, host, sandboxTtlSeconds } = deps;
  const id = sandboxKey(input, input.restore);
  if (await store.get<RestoredRecord>(keys.restored(id))) {
    closeAll(await connectAll(provider, refTo(specs, id, host, sandboxTtlSeconds)));
    return;
  }
  const leases = sandboxLeases(store, host, Number.MAX_SAFE_INTEGER);
  const sandboxes = await createAll(provider, specs);
  try {
    const turns = [...(await actsOf(store, input))];
    const { toolTimeoutSeconds } = input;
    const { signal } = new AbortController();
    const stepping = { attempt: input, task, sandboxes, place: deps, signal };
    const acting = {
      attempt: input,
      tools: task.tools,
      sandbox: mainOf(sandboxes),
      store,
      repeatStep: (turn: number) => repeatStep(stepping, turn),
      toolTimeoutSeconds,
    };
    await allKeptAlive(leases, sandboxes, input.rollout, sandboxTtlSeconds, () => replayTurns(acting, turns));
    await store.putOnce<RestoredRecord>(keys.restored(id), { turn: turns.at(-1)?.[0] ?? 0 });
  } finally {
    closeAll(sandboxes);
  }
}
