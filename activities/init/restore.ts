/**
 * Replaces lost sandboxes by fresh ones in the same state: the task's `start` and the attempt's recorded calls are
 * run again, those since the last snapshot if there is one, and digests of `main` are compared. If one of several was
 * lost, all are replaced. The policy is not sampled, and no recorded answer changes.
 */

import { McpFailed, type McpServers } from '../../agents/mcp/server.ts';
import { listOverHttp, startServers } from '../../agents/mcp/tools.ts';
import { sandboxLeases } from '../../sandboxes/leases.ts';
import type { Sandbox, SandboxProvider } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import { MAIN, type Task } from '../../tasks/environment.ts';
import { offeredTools } from '../../tasks/offered-tools.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { Attempt, RestoreInput } from '../../protocol/stages.ts';
import type { McpRecord, McpSession, RestoredRecord } from '../../protocol/records.ts';
import { attemptKey, keys, sandboxKey } from '../../protocol/record-keys.ts';
import { actsOf } from '../../store/read-records.ts';
import type { Place } from '../../protocol/frames.ts';
import { EnvironmentFailed } from '../failures.ts';
import { repeatStep } from '../agent-run/environment-step.ts';
import { Secrets } from '../agent-run/secrets.ts';
import { fromSnapshot } from '../agent-run/snapshots.ts';
import { replayTurns } from '../agent-run/tool-calls.ts';
import { repeatStart } from './start.ts';
import {
  allKeptAlive,
  closeAll,
  connectAll,
  createAll,
  endAll,
  mainOf,
  refTo,
  type TaskSandboxes,
  type TaskSpecs,
} from '../task-sandboxes.ts';

export interface RestoreDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
  readonly provider: SandboxProvider;
  readonly host: string;
  readonly sandboxTtlSeconds: number;
}

/** Errors: `EnvironmentFailed` for servers of the task that cannot be used; those of `start`. */
async function blamed<T>(start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    throw error instanceof McpFailed ? new EnvironmentFailed(error.message) : error;
  }
}

/** Starts the task's MCP servers in a fresh sandbox. Errors: `EnvironmentFailed`; those of the sandbox. */
export function startMcp(attempt: Attempt, servers: McpServers, sandbox: Sandbox): Promise<McpRecord> {
  return blamed(() => startServers(sandbox, servers, `${attemptKey(attempt)}/mcp`));
}

/**
 * Starts the servers in the sandbox, begins sessions at those over HTTP, and records the tools of all: once for an
 * attempt. Errors: `EnvironmentFailed`; `ServiceUnavailable`; those of the sandbox.
 */
export async function recordMcp(
  attempt: Attempt,
  servers: McpServers,
  sandbox: Sandbox | undefined,
  store: Store,
  signal: AbortSignal,
): Promise<void> {
  const started = sandbox === undefined ? {} : await startMcp(attempt, servers, sandbox);
  if ((await store.get(keys.mcp(attempt))) !== undefined) return;
  const { listing, sessions } = await blamed(() => listOverHttp(servers, signal));
  for (const [server, session] of Object.entries(sessions))
    await store.putOnce<McpSession>(keys.mcpSession(attempt, server, 0), session);
  await store.putOnce<McpRecord>(keys.mcp(attempt), { ...started, ...listing });
}

/**
 * Removes what is left of the lost sandboxes, and their leases, so that their room is free, on whatever host it was.
 */
export async function forgetLost(
  input: RestoreInput,
  task: Task,
  { store, provider }: Pick<RestoreDeps, 'store' | 'provider'>,
): Promise<void> {
  const others = Object.keys(task.sandboxes ?? {}).filter((name) => name !== MAIN);
  const lost = { sandbox: sandboxKey(input, input.restore - 1), others };
  await endAll(provider, (id) => store.releaseLease(id), lost);
}

/** The sandboxes, as they were after turn `after`: from a snapshot, or as they were prepared. */
async function made(
  input: RestoreInput,
  specs: TaskSpecs,
  deps: RestoreDeps,
): Promise<{ readonly sandboxes: TaskSandboxes; readonly after: number }> {
  const found = await fromSnapshot(input, specs, deps);
  if (found) return { sandboxes: found.sandboxes, after: found.turn };
  return { sandboxes: await createAll(deps.provider, specs), after: 0 };
}

/**
 * Makes the sandboxes of `specs`. A repeated call finds the same ones, and does not touch those in which the attempt
 * has acted since.
 * Errors: `RestoreFailed`; `SandboxLost` if it was restored and is lost again; those of `create`.
 */
export async function restoreSandboxes(
  input: RestoreInput,
  task: Task,
  specs: TaskSpecs,
  deps: RestoreDeps,
  signal: AbortSignal,
): Promise<void> {
  const { store, provider, host, sandboxTtlSeconds } = deps;
  const id = sandboxKey(input, input.restore);
  if (await store.get<RestoredRecord>(keys.restored(id))) {
    closeAll(await connectAll(provider, refTo(specs, id, host, sandboxTtlSeconds)));
    return;
  }
  const leases = sandboxLeases(store, host, Number.MAX_SAFE_INTEGER);
  const { sandboxes, after } = await made(input, specs, deps);
  try {
    const turns = [...(await actsOf(store, input))];
    const { toolTimeoutSeconds } = input;
    const stepping = { attempt: input, task, sandboxes, place: deps, signal };
    const acting = {
      attempt: input,
      toolsAt: (place: Place) => offeredTools(input, place, deps),
      sandbox: mainOf(sandboxes),
      store,
      asking: deps,
      // Tools that run in the worker are never run again.
      secrets: new Secrets({}),
      signal,
      repeatStep: (turn: number) => repeatStep(stepping, turn),
      toolTimeoutSeconds,
    };
    await allKeptAlive(leases, sandboxes, input.rollout, sandboxTtlSeconds, async () => {
      if (after === 0) await repeatStart(stepping);
      if (task.mcp) await startMcp(input, task.mcp, mainOf(sandboxes));
      await replayTurns(acting, turns, after);
    });
    await store.putOnce<RestoredRecord>(keys.restored(id), { turn: turns.at(-1)?.[0] ?? 0 });
  } finally {
    closeAll(sandboxes);
  }
}
