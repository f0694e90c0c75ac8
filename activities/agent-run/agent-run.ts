/**
 * The `agent-run@HOST` queue: runs a turn's tool calls in the sandbox, each under its own journal key, and takes out
 * what will be graded. A call that ran and was recorded never runs again.
 */

import { sandboxLeases } from '../../sandboxes/leases.ts';
import type { Sandbox, SandboxProvider } from '../../sandboxes/sandbox.ts';
import type { Store } from '../../store/store.ts';
import { offeredTools } from '../../tasks/offered-tools.ts';
import type { TaskLoader } from '../../tasks/task-loader.ts';
import type { AgentRunActivities } from '../../protocol/activities.ts';
import type { AgentRunInput, AgentRunOutcome, Attempt, CollectOutcome, SandboxRef } from '../../protocol/stages.ts';
import { type AskDeps, patienceWithJudges } from '../ask.ts';
import type { Place } from '../../protocol/frames.ts';
import { withFailureMapping } from '../failure-mapping.ts';
import { withHeartbeat } from '../heartbeat.ts';
import { inItsTime } from '../own-time.ts';
import type { ActRecord, GenerateRecord } from '../../protocol/records.ts';
import { keys } from '../../protocol/record-keys.ts';
import { contextOver, withFurtherSandboxes } from '../task-context.ts';
import { allKeptAlive, closeAll, connectAll, endAll, mainOf, type TaskSandboxes } from '../task-sandboxes.ts';
import { checkWorkersLost, tried } from '../tries.ts';
import { gradeIn, verdictOf } from '../reward/reward.ts';
import { repeatStep, stepTurn } from './environment-step.ts';
import { type OpenGateway, programEnd, recordReports, runProgram } from './program.ts';
import { Secrets } from './secrets.ts';
import { snapshotIfLong, type SnapshotSettings } from './snapshots.ts';
import { type Acting, actTurn, isHere, recordLastTurn, replayTurns } from './tool-calls.ts';

/** The time that a turn has after its deadline, to end by itself and to report what ran in it. */
export const TURN_ENDS_MS = 30_000;

export interface AgentRunDeps extends AskDeps {
  readonly tasks: TaskLoader;
  readonly provider: SandboxProvider;
  readonly host: string;
  readonly sandboxTtlSeconds: number;
  /** When a snapshot is taken, and how large it may be. Default: after three minutes of calls, 500 MiB. */
  readonly snapshots?: SnapshotSettings;
  /** Of tools that run in the worker. Default: those of this process's environment. */
  readonly secrets?: Secrets;
  /** Of programs with a gateway. Absent: none can have one here. */
  readonly openGateway?: OpenGateway;
}

function lineOf({ messages }: ActRecord): string {
  const first = messages[0]?.content.split('\n')[0] ?? '';
  return `${messages.length === 1 ? '' : `${messages.length} answers: `}${first.slice(0, 120)}`;
}

/** Connects, and keeps the sandboxes and their leases alive for as long as `body` takes. */
async function withSandboxes<T>(
  deps: AgentRunDeps,
  input: Attempt & SandboxRef,
  body: (sandboxes: TaskSandboxes) => Promise<T>,
): Promise<T> {
  const { provider, store, host, sandboxTtlSeconds } = deps;
  // To renew a lease that is held already needs no more room.
  const leases = sandboxLeases(store, host, Number.MAX_SAFE_INTEGER);
  const sandboxes = await connectAll(provider, input);
  try {
    return await allKeptAlive(leases, sandboxes, input.rollout, sandboxTtlSeconds, () => body(sandboxes));
  } finally {
    closeAll(sandboxes);
  }
}

function release({ provider, store }: AgentRunDeps, ref: SandboxRef): Promise<void> {
  return endAll(provider, (id) => store.releaseLease(id), ref);
}

const askedNever = {
  ask: () => Promise.reject(new TypeError('collect asks no judge: ask in grade')),
  deadline: Number.POSITIVE_INFINITY,
};

/** Collects the artifact that is graded, and records it. The first record counts. */
async function takenOut(
  input: Attempt,
  sandboxes: TaskSandboxes,
  signal: AbortSignal,
  deps: AgentRunDeps,
): Promise<CollectOutcome> {
  const { store, tasks } = deps;
  const { task } = await tasks.load(input);
  const key = keys.collect(input);
  const execution = await store.begin(key);
  const named = {
    key: input.task,
    id: `${mainOf(sandboxes).id}/collect-${execution}`,
    execution,
    signal,
    ...askedNever,
  };
  const bytes = await withFurtherSandboxes(
    deps,
    input.rollout,
    async (controls) => (await task.collect?.(contextOver(sandboxes, controls, named))) ?? new Uint8Array(),
  );
  return store.putOnceWithObject<CollectOutcome>(key, bytes, (artifact) => ({ artifact, bytes: bytes.length }));
}

function collects({ collect }: AgentRunInput, { unfinished }: Pick<ActRecord, 'unfinished'>): boolean {
  return collect === 'always' || (collect === 'if-finished' && !unfinished);
}

/** How the calls of a turn run. `sandbox`: `undefined` if the task has none. */
function actingOf(
  input: AgentRunInput,
  sandbox: Sandbox | undefined,
  repeat: (turn: number) => Promise<void>,
  deps: AgentRunDeps,
  signal: AbortSignal,
): Acting {
  const { store, secrets = new Secrets(process.env) } = deps;
  const { toolTimeoutSeconds, withinMs } = input;
  const toolsAt = (place: Place) => offeredTools(input, place, deps);
  return {
    attempt: input,
    toolsAt,
    sandbox,
    store,
    asking: deps,
    secrets,
    signal,
    repeatStep: repeat,
    toolTimeoutSeconds,
    withinMs,
  };
}

/** Runs the turn. If it is the last one in its sandbox, the artifact is collected before the turn is recorded. */
async function act(
  input: AgentRunInput,
  known: ActRecord | undefined,
  sandboxes: TaskSandboxes,
  signal: AbortSignal,
  deps: AgentRunDeps,
): Promise<ActRecord> {
  const { store, tasks } = deps;
  const { task } = await tasks.load(input);
  const sandbox = mainOf(sandboxes);
  const stepping = { attempt: input, task, sandboxes, place: deps, signal };
  const acting = actingOf(input, sandbox, (turn) => repeatStep(stepping, turn), deps, signal);
  const takeOut = async (record: Pick<ActRecord, 'unfinished' | 'done'>) => {
    if (!collects(input, record)) return false;
    await takenOut(input, sandboxes, signal, deps);
    return true;
  };
  const acted = async (): Promise<ActRecord> => {
    if (!(await isStep(input, store))) return actTurn(acting, input.turn, takeOut);
    const record = await stepTurn(stepping, input.turn);
    await takeOut(record);
    return record;
  };
  if (!known) {
    const record = await acted();
    if (!collects(input, record))
      await snapshotIfLong({ attempt: input, turn: input.turn, record }, task, sandboxes, {
        store,
        signal,
        ...deps.snapshots,
      });
    return record;
  }
  if (!(await isHere(sandbox.id, input.turn, known, store))) await replayTurns(acting, [[input.turn, known]]);
  await takeOut(known);
  return known;
}

async function isStep(input: AgentRunInput, store: Store): Promise<boolean> {
  return (await store.get<GenerateRecord>(keys.generate(input, input.turn)))?.command?.do === 'step';
}

function outcomeOf(record: ActRecord): AgentRunOutcome {
  const { unfinished, done, ms } = record;
  return {
    line: lineOf(record),
    ...(ms === undefined ? {} : { ms }),
    ...(unfinished === undefined ? {} : { unfinished }),
    ...(done === undefined ? {} : { done }),
  };
}

/**
 * Runs a turn in its sandbox. If the attempt's artifact was collected already, nothing runs any more, on whatever host
 * it is repeated.
 */
async function actedIn(
  input: AgentRunInput & SandboxRef,
  signal: AbortSignal,
  deps: AgentRunDeps,
): Promise<AgentRunOutcome> {
  const { store } = deps;
  const { turn } = input;
  const isOver = (await store.get<CollectOutcome>(keys.collect(input))) !== undefined;
  const known =
    (await store.get<ActRecord>(keys.act(input, turn))) ??
    (isOver
      ? await recordLastTurn({ attempt: input, store, toolsAt: (place) => offeredTools(input, place, deps) }, turn)
      : undefined);
  const isDone =
    known !== undefined && (isOver || (!collects(input, known) && (await isHere(input.sandbox, turn, known, store))));
  if (!isDone) await checkWorkersLost(store);
  const record = isDone ? known : await withSandboxes(deps, input, (all) => act(input, known, all, signal, deps));
  const outcome = outcomeOf(record);
  const collected = collects(input, record) ? await store.get<CollectOutcome>(keys.collect(input)) : undefined;
  if (!collected) return outcome;
  await release(deps, input);
  return { ...outcome, collected };
}

/** Runs a turn of a task without a sandbox. */
async function actedWithout(input: AgentRunInput, signal: AbortSignal, deps: AgentRunDeps): Promise<AgentRunOutcome> {
  const { store, tasks } = deps;
  const known = await store.get<ActRecord>(keys.act(input, input.turn));
  if (known) return outcomeOf(known);
  await checkWorkersLost(store);
  const { task } = await tasks.load(input);
  const stepping = { attempt: input, task, sandboxes: {}, place: deps, signal };
  if (await isStep(input, store)) return outcomeOf(await stepTurn(stepping, input.turn));
  const acting = actingOf(input, undefined, (turn) => repeatStep(stepping, turn), deps, signal);
  return outcomeOf(await actTurn(acting, input.turn, async () => await Promise.resolve(true)));
}

const isInSandbox = (input: AgentRunInput): input is AgentRunInput & SandboxRef =>
  input.sandbox !== undefined && input.host !== undefined;

export function createAgentRunActivities(deps: AgentRunDeps): AgentRunActivities {
  const { store } = deps;
  const limits = { store, place: 'agent-run' } as const;
  return {
    agentRun: (input) =>
      tried({ ...limits, ...patienceWithJudges(input) }, (signal) => {
        const { withinMs } = input;
        return inItsTime(withinMs === undefined ? undefined : withinMs + TURN_ENDS_MS, signal, (own) =>
          isInSandbox(input) ? actedIn(input, own, deps) : actedWithout(input, own, deps),
        );
      }),

    gradeInPlace: (input) =>
      tried({ store, place: 'reward', ...patienceWithJudges(input) }, (signal) =>
        verdictOf(input, () => withSandboxes(deps, input, (all) => gradeIn(all, input, deps, signal)), deps),
      ),

    collect: (input) =>
      tried(limits, async (signal) => {
        const known = await store.get<CollectOutcome>(keys.collect(input));
        if (!known) await checkWorkersLost(store);
        const outcome = known ?? (await withSandboxes(deps, input, (all) => takenOut(input, all, signal, deps)));
        await release(deps, input);
        return outcome;
      }),

    runProgram: (input) =>
      tried(limits, async (signal) => {
        const known = await programEnd(input, store);
        if (known) return known;
        await checkWorkersLost(store);
        return withSandboxes(deps, input, (all) => runProgram(mainOf(all), input, deps, signal));
      }),

    recordReports: (input) => tried(limits, () => recordReports(input, deps)),

    releaseSandbox: (input) => withFailureMapping(() => withHeartbeat(() => release(deps, input))),

    holdSandbox: (input) =>
      tried(limits, async () => {
        await checkWorkersLost(store);
        await withSandboxes(deps, input, () => Promise.resolve());
      }),
  };
}
