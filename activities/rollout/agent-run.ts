/**
 * The `agent-run@HOST` queue: runs a turn's tool calls in the sandbox, each under its own journal key, and takes out
 * what will be graded. A call that ran and was recorded never runs again.
 */

import { keptAlive, sandboxLeases } from '../../sandboxes/leases.ts';
import type { Sandbox, SandboxProvider } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import { environmentOf } from '../../tasks/registry.ts';
import type { AgentRunActivities } from '../../workflows/activities.ts';
import type { Attempt, CollectOutcome, SandboxRef } from '../../workflows/messages/stages.ts';
import { classified } from '../failures.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { type ActRecord, keys } from '../records.ts';
import { actTurn, isHere, replayTurns } from './tool-calls.ts';

export interface AgentRunDeps {
  readonly store: Store;
  readonly provider: SandboxProvider;
  readonly host: string;
  readonly sandboxTtlSeconds: number;
}

function lineOf({ messages }: ActRecord): string {
  const first = messages[0]?.content.split('\n')[0] ?? '';
  return `${messages.length === 1 ? '' : `${messages.length} answers: `}${first.slice(0, 120)}`;
}

/** Connects, and keeps the sandbox and its lease alive for as long as `body` takes. */
async function withSandbox<T>(deps: AgentRunDeps, input: Attempt & SandboxRef, body: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  const { provider, store, host, sandboxTtlSeconds } = deps;
  // Renewing what is held already asks for no more room.
  const leases = sandboxLeases(store, host, Number.MAX_SAFE_INTEGER);
  const sandbox = await provider.connect(input.sandbox);
  try {
    return await keptAlive(leases, sandbox, input.rollout, sandboxTtlSeconds, () => body(sandbox));
  } finally {
    sandbox.close();
  }
}

async function release(deps: AgentRunDeps, id: string): Promise<void> {
  await deps.provider.destroy(id);
  await sandboxLeases(deps.store, deps.host, Number.MAX_SAFE_INTEGER).release(id);
}

export function createAgentRunActivities(deps: AgentRunDeps): AgentRunActivities {
  const { store } = deps;
  return {
    agentRun: (input) =>
      classified(() =>
        withHeartbeat(async () => {
          const key = keys.act(input, input.turn);
          const known = await store.get<ActRecord>(key);
          if (known && (await isHere(input, input.turn, known, store))) return { line: lineOf(known) };
          const record = await withSandbox(deps, input, async (sandbox) => {
            const acting = { attempt: input, sandbox, store, toolTimeoutSeconds: input.toolTimeoutSeconds };
            if (!known) return actTurn(acting, input.turn);
            await replayTurns(acting, [[input.turn, known]]);
            return known;
          });
          return { line: lineOf(record) };
        }),
      ),

    collect: (input) =>
      classified(() =>
        withHeartbeat(async () => {
          const key = keys.collect(input);
          let outcome = await store.get<CollectOutcome>(key);
          if (!outcome) {
            const execution = await store.begin(key);
            const bytes = await withSandbox(deps, input, (sandbox) =>
              environmentOf(input.task).collect(input.task, sandbox, execution),
            );
            outcome = await store.putOnce(key, { artifact: await store.putObject(bytes), bytes: bytes.length });
          }
          await release(deps, input.sandbox);
          return outcome;
        }),
      ),

    releaseSandbox: (input) => classified(() => withHeartbeat(() => release(deps, input.sandbox))),

    holdSandbox: (input) => classified(() => withHeartbeat(() => withSandbox(deps, input, () => Promise.resolve()))),
  };
}
