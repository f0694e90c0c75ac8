/**
 * The `agent-run@HOST` queue: runs a turn's tool calls in the sandbox, each under its own journal key, and takes out
 * what will be graded. A call that ran and was recorded never runs again.
 */

import { LeasedProvider } from '../../sandboxes/leased-provider.ts';
import { GRADER_LEASE, keptAlive, sandboxLeases } from '../../sandboxes/leases.ts';
import type { Sandbox, SandboxProvider } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { AgentRunActivities } from '../../protocol/activities.ts';
import type { AgentRunInput, AgentRunOutcome, Attempt, CollectOutcome, SandboxRef } from '../../protocol/stages.ts';
import { withFailureMapping } from '../failures.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { inItsTime } from '../own-time.ts';
import { type ActRecord, keys } from '../../protocol/records.ts';
import { contextOver } from '../task-context.ts';
import { checkWorkersLost, tried } from '../tries.ts';
import { actTurn, isHere, recordLastTurn, replayTurns } from './tool-calls.ts';

/** The time that a turn has after its deadline, to end by itself and to report what ran in it. */
export const TURN_ENDS_MS = 30_000;

export interface AgentRunDeps {
  readonly store: Store;
  readonly tasks: TaskLoader;
  readonly provider: SandboxProvider;
  readonly host: string;
  readonly sandboxTtlSeconds: number;
}

function lineOf({ messages }: ActRecord): string {
  const first = messages[0]?.content.split('\n')[0] ?? '';
  return `${messages.length === 1 ? '' : `${messages.length} answers: `}${first.slice(0, 120)}`;
}

/** Connects, and keeps the sandbox and its lease alive for as long as `body` takes. */
async function withSandbox<T>(
  deps: AgentRunDeps,
  input: Attempt & SandboxRef,
  body: (sandbox: Sandbox) => Promise<T>,
): Promise<T> {
  const { provider, store, host, sandboxTtlSeconds } = deps;
  // To renew a lease that is held already needs no more room.
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

/** Collects the artifact that is graded, and records it. The first record counts. */
async function takenOut(
  input: Attempt,
  sandbox: Sandbox,
  signal: AbortSignal,
  { store, tasks, provider, host }: AgentRunDeps,
): Promise<CollectOutcome> {
  const { task, key: name } = await tasks.load(input);
  const key = keys.collect(input);
  const execution = await store.begin(key);
  const controls = new LeasedProvider(
    provider,
    sandboxLeases(store, host, Number.MAX_SAFE_INTEGER, GRADER_LEASE),
    input.rollout,
  );
  try {
    const named = { key: name, id: `${sandbox.id}/collect-${execution}`, execution, signal };
    const bytes = (await task.collect?.(contextOver(sandbox, controls, named))) ?? new Uint8Array();
    return await store.putOnceWithObject<CollectOutcome>(key, bytes, (artifact) => ({ artifact, bytes: bytes.length }));
  } finally {
    await controls.end();
  }
}

function collects({ collect }: AgentRunInput, { unfinished }: Pick<ActRecord, 'unfinished'>): boolean {
  return collect === 'always' || (collect === 'if-finished' && !unfinished);
}

/** Runs the turn in its sandbox. If it is the last one, the artifact is collected before the turn is recorded. */
async function act(
  input: AgentRunInput,
  known: ActRecord | undefined,
  sandbox: Sandbox,
  signal: AbortSignal,
  deps: AgentRunDeps,
): Promise<ActRecord> {
  const { store, tasks } = deps;
  const { tools } = (await tasks.load(input)).task;
  const acting = {
    attempt: input,
    tools,
    sandbox,
    store,
    toolTimeoutSeconds: input.toolTimeoutSeconds,
    withinMs: input.withinMs,
  };
  const takeOut = async (record: Pick<ActRecord, 'unfinished'>) => {
    if (!collects(input, record)) return false;
    await takenOut(input, sandbox, signal, deps);
    return true;
  };
  if (!known) return actTurn(acting, input.turn, takeOut);
  if (!(await isHere(input, input.turn, known, store))) await replayTurns(acting, [[input.turn, known]]);
  await takeOut(known);
  return known;
}

/**
 * Runs a turn. If the attempt's artifact was collected already, nothing runs any more, on whatever host it is repeated.
 */
async function acted(input: AgentRunInput, signal: AbortSignal, deps: AgentRunDeps): Promise<AgentRunOutcome> {
  const { store } = deps;
  const { turn } = input;
  const isOver = (await store.get<CollectOutcome>(keys.collect(input))) !== undefined;
  const known =
    (await store.get<ActRecord>(keys.act(input, turn))) ??
    (isOver ? await recordLastTurn({ attempt: input, store }, turn) : undefined);
  const isDone =
    known !== undefined && (isOver || (!collects(input, known) && (await isHere(input, turn, known, store))));
  if (!isDone) await checkWorkersLost(store);
  const record = isDone ? known : await withSandbox(deps, input, (sandbox) => act(input, known, sandbox, signal, deps));
  const { unfinished, ms } = record;
  const outcome = {
    line: lineOf(record),
    ...(ms === undefined ? {} : { ms }),
    ...(unfinished === undefined ? {} : { unfinished }),
  };
  const collected = collects(input, record) ? await store.get<CollectOutcome>(keys.collect(input)) : undefined;
  if (!collected) return outcome;
  await release(deps, input.sandbox);
  return { ...outcome, collected };
}

export function createAgentRunActivities(deps: AgentRunDeps): AgentRunActivities {
  const { store } = deps;
  const limits = { store, place: 'agent-run' } as const;
  return {
    agentRun: (input) =>
      tried(limits, (signal) => {
        const { withinMs } = input;
        return inItsTime(withinMs === undefined ? undefined : withinMs + TURN_ENDS_MS, signal, (own) =>
          acted(input, own, deps),
        );
      }),

    collect: (input) =>
      tried(limits, async (signal) => {
        const known = await store.get<CollectOutcome>(keys.collect(input));
        if (!known) await checkWorkersLost(store);
        const outcome = known ?? (await withSandbox(deps, input, (sandbox) => takenOut(input, sandbox, signal, deps)));
        await release(deps, input.sandbox);
        return outcome;
      }),

    releaseSandbox: (input) => withFailureMapping(() => withHeartbeat(() => release(deps, input.sandbox))),

    holdSandbox: (input) =>
      tried(limits, async () => {
        await checkWorkersLost(store);
        await withSandbox(deps, input, () => Promise.resolve());
      }),
  };
}
