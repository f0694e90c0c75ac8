/**
 * One rollout: prepare a sandbox, run policy and tools in turns, collect, release, grade. It ends with a result
 * whatever happens to sandboxes, engine and graders; only a cancellation is thrown. The sandbox is always released.
 * A long rollout continues in a new history before a turn, with its sandbox and all signals that it received.
 */

import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  isCancellation,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Failure } from '../protocol/finish-reason.ts';
import { classify } from './failures/classify-failure.ts';
import { tripLine, type Trip } from '../protocol/breaker.ts';
import { BUDGET, FAILURES } from '../protocol/failure-policy.ts';
import { heldTrip, reportHeld } from './failures/held-rollout.ts';
import { setOrderedSignalHandlers, on } from './ordered-signals.ts';
import { leaveProgram } from './rollout/await-program.ts';
import { isLost, renewalOf } from './rollout/hold-sandbox.ts';
import { initialState, type LoopEvent, type LoopState, reduce, stageOf } from './rollout/rollout-loop.ts';
import { type Context, isCrowded } from './rollout/rollout-context.ts';
import { atDeadline, hasDeadline, perform, release } from './rollout/rollout-stages.ts';
import { showDoing } from './rollout/show-doing.ts';
import { type CallProgress, type Calling, ProgramCalls } from './rollout/program-calls.ts';
import { sampleCall } from './rollout/sample-turn.ts';
import { ProgramReports, type Reported } from './rollout/program-reports.ts';
import { RolloutClock, type Spent } from './rollout/rollout-clock.ts';
import { failureKey, finishKey, rewardKey, stageKey } from '../protocol/search-attributes.ts';
import { reportingEnd } from './rollout/report-end.ts';
import { resolveRollout } from './rollout/resolve-rollout.ts';
import { proceedSignal, StageGates } from './rollout/stage-gates.ts';
import type { ProgramCard } from '../protocol/program.ts';
import type { GatedStage, RolloutInput, RolloutResult } from '../protocol/rollout.ts';
import type { ObjectRef, TaskLimits } from '../protocol/stages.ts';

export interface RolloutState extends LoopState {
  readonly task: string;
  /** Says what `task` means. Absent: it starts with an environment's name. */
  readonly catalog?: ObjectRef;
  readonly paused: boolean;
  readonly contextTokens: number;
  /** Why it is held until it is resumed; absent: it is not held. */
  readonly held?: Trip;
}

export const stateQuery = defineQuery<RolloutState>('state');
export const pauseSignal = defineSignal('pause');
export const resumeSignal = defineSignal('resume');

/** Carried over continue-as-new, which happens before a turn or while the rollout is held. */
export interface RolloutProgress
  extends Spent, Pick<Context, 'sandbox' | 'contextTokens' | 'sampledTokens' | 'lines' | 'paused'> {
  /** Absent: its agent is no program. */
  readonly program?: Pick<Context, 'programMs' | 'silentMs'> & {
    readonly card: ProgramCard;
    /** Present if its model calls come through the gateway. */
    readonly calls?: CallProgress;
  };
  /** Absent: none. */
  readonly taskLimits?: TaskLimits;
  /** Absent: it is not held. */
  readonly held?: Trip;
  /** How often it was resumed. */
  readonly resumed: number;
  /** The GPU worker that has the context in its cache. */
  readonly worker?: string;
  readonly state: LoopState;
  readonly allowed: readonly GatedStage[];
}

/** Characters of a grader's reason: each result is in its batch's history. */
const REASON_LENGTH = 200;

function resultOf(state: LoopState, context: Context): RolloutResult {
  const { restores, reward: value, passed, reason, finish, failure, message } = state;
  return {
    rollout: context.rollout,
    task: context.input.task,
    status: state.phase === 'graded' ? 'graded' : 'failed',
    attempt: state.attempt,
    turns: state.turn,
    ...(restores === undefined ? {} : { restores }),
    ...(value === undefined ? {} : { reward: value }),
    ...(passed === undefined ? {} : { passed }),
    ...(reason ? { reason: reason.slice(0, REASON_LENGTH) } : {}),
    ...(finish === undefined ? {} : { finish }),
    ...(failure === undefined ? {} : { failure }),
    ...(message === undefined ? {} : { message }),
  };
}

function publishEnd(state: LoopState): void {
  upsertSearchAttributes([
    { key: stageKey, value: 'done' },
    ...(state.reward === undefined ? [] : [{ key: rewardKey, value: state.reward }]),
    ...(state.finish === undefined ? [] : [{ key: finishKey, value: state.finish }]),
    ...(state.failure === undefined ? [] : [{ key: failureKey, value: state.failure }]),
  ]);
}

function contextOf(given: RolloutInput, progress: RolloutProgress | undefined, state: () => LoopState): Context {
  const { workflowId: rollout } = workflowInfo();
  const input = resolveRollout(given, rollout);
  const {
    allowed = [],
    sandbox = null,
    taskLimits = {},
    contextTokens = 0,
    sampledTokens = 0,
    worker = null,
    lines = [],
    paused = false,
    held = null,
    resumed = 0,
    spentMs = null,
    ownMs = 0,
    program,
  } = progress ?? {};
  const gates = new StageGates(input.gates, allowed);
  const clock = new RolloutClock(input.agent, { spentMs, ownMs }, Date.now());
  const limits = { maxTurns: input.agent.maxTurns, maxAttempts: BUDGET.attempts, maxRestores: BUDGET.restores };
  const reports = new ProgramReports((): Reported => ({
    state: state(),
    card: context.program,
    maxTurns: limits.maxTurns,
  }));
  const { maxSampledTokens = Number.MAX_SAFE_INTEGER } = input.agent;
  const calls = new ProgramCalls(
    (): Calling => ({
      state: state(),
      card: context.program,
      maxTurns: limits.maxTurns,
      waits: context.paused || context.held !== null,
      tokensLeft: maxSampledTokens - context.sampledTokens,
    }),
    (turn, call, tokens) => sampleCall(state(), turn, call, tokens, context),
    input.sampling.maxTokens,
    program?.calls,
  );
  const context: Context = {
    input,
    rollout,
    limits,
    gates,
    clock,
    sandbox,
    taskLimits,
    contextTokens,
    sampledTokens,
    worker,
    lines,
    doing: held ? tripLine(held, input.run ?? rollout) : '',
    paused,
    held,
    resumed,
    collected: null,
    rounds: 0,
    program: program?.card ?? null,
    reports,
    calls,
    running: null,
    programMs: program?.programMs ?? 0,
    silentMs: program?.silentMs ?? 0,
  };
  return context;
}

function progressOf(state: LoopState, context: Context): RolloutProgress {
  const { sandbox, taskLimits, contextTokens, sampledTokens, worker, lines, paused, held, resumed, gates, clock } =
    context;
  const { program: card, programMs, silentMs } = context;
  return {
    state,
    sandbox,
    ...(Object.keys(taskLimits).length > 0 && { taskLimits }),
    contextTokens,
    sampledTokens,
    ...(worker === null ? {} : { worker }),
    lines,
    paused,
    ...(held && { held }),
    ...(card && { program: { card, programMs, silentMs, ...(card.gateway && { calls: context.calls.progress }) } }),
    resumed,
    allowed: gates.allowed,
    ...clock.spent(Date.now()),
  };
}

/** `progress` is set by continue-as-new only. */
export function rollout(given: RolloutInput, progress?: RolloutProgress): Promise<RolloutResult> {
  return reportingEnd(given, () => runRollout(given, progress));
}

async function runRollout(given: RolloutInput, progress?: RolloutProgress): Promise<RolloutResult> {
  let state = progress?.state ?? initialState;
  const context = contextOf(given, progress, () => state);
  setHandler(stateQuery, () => ({
    ...state,
    task: context.input.task,
    ...(context.input.catalog && { catalog: context.input.catalog }),
    paused: context.paused,
    contextTokens: context.contextTokens,
    ...(context.held && { held: context.held }),
  }));
  setOrderedSignalHandlers(
    on(pauseSignal, () => void (context.paused = true)),
    on(resumeSignal, () => resume(context)),
    on(proceedSignal, (stage) => context.gates.allow(stage)),
  );
  context.reports.setHandlers();
  context.calls.setHandler();

  if (context.held) showDoing(context);
  let goesOn = false;
  try {
    while (stageOf(state) !== 'done' && !goesOn) {
      if (isFull(state, context)) {
        context.reports.close();
        context.calls.close();
        await condition(() => allHandlersFinished() && context.calls.isIdle);
        await leaveProgram(context);
        goesOn = true;
      } else if (stageOf(state) === 'agent-run' && !context.gates.isOpen('agent-run')) {
        state = await enter(state, 'agent-run', context);
      } else
        state = await (mustWait(state, context)
          ? standStill(state, context, () => !mustWait(state, context))
          : advance(state, context));
    }
  } finally {
    if (!goesOn) await release(context, state);
  }
  if (goesOn) await continueAsNew<typeof rollout>(given, progressOf(state, context));
  // A client that has reported is answered before the rollout ends.
  if (state.external) await condition(allHandlersFinished);
  publishEnd(state);
  return resultOf(state, context);
}

/**
 * True if the rollout must continue in a new history. Never in phase `grade`: only this history knows what was
 * collected, and no sandbox needs renewal any more.
 */
function isFull({ phase }: LoopState, context: Context): boolean {
  const mayGoOn = phase === 'generate' || phase === 'wait' || (context.held !== null && phase !== 'grade');
  return mayGoOn && isCrowded(context);
}

/** The failed phase is repeated. */
function resume(context: Context): void {
  context.paused = false;
  context.held = null;
  context.resumed += 1;
}

/**
 * A paused rollout ends its turn, then starts nothing; after its last turn it is collected and graded. A program
 * elsewhere gets no answer to its reports; one in the sandbox works on. A held rollout does nothing.
 */
function mustWait({ phase, external }: LoopState, { paused, held }: Context): boolean {
  const mayStop = phase === 'prepare' || phase === 'restore' || phase === 'generate';
  return held !== null || (paused && (mayStop || (phase === 'wait' && external === 'elsewhere')));
}

/** Waits; the time does not count as the rollout's own. */
async function standStill(state: LoopState, context: Context, mayGoOn: () => boolean): Promise<LoopState> {
  const since = Date.now();
  try {
    return await waitUntil(mayGoOn, state, context);
  } finally {
    context.clock.exclude(Date.now() - since);
  }
}

/** Waits until it may continue, or until its sandbox is due for renewal: then the sandbox is renewed or found lost. */
async function waitUntil(mayGoOn: () => boolean, state: LoopState, context: Context): Promise<LoopState> {
  const { sandbox } = context;
  if (!sandbox) {
    await condition(mayGoOn);
    return state;
  }
  if (await condition(mayGoOn, renewalOf(sandbox))) return state;
  context.rounds += 1;
  if (!(await isLost(sandbox, state.attempt, context))) return state;
  await release(context, state);
  return reduce(
    state,
    { type: 'failed', failure: 'sandbox-lost', message: 'The sandbox was lost while the rollout waited' },
    context.limits,
  );
}

/** One step of the loop. At the end of a stage it reports this, and enters the next stage. */
async function advance(state: LoopState, context: Context): Promise<LoopState> {
  if (state.phase === 'generate') context.rounds += 1;
  const next = await attempted(state, context);
  const before = stageOf(state);
  const after = stageOf(next);
  if (before === after || before === 'done' || after === 'init' || after === 'done') return next;
  await context.gates.report(before);
  return enter(next, after, context);
}

/**
 * Waits until the parent admits the rollout. Meanwhile the sandbox is renewed, and may be found lost. A rollout that
 * waits for days continues to wait in a new history.
 */
async function enter(state: LoopState, stage: GatedStage, context: Context): Promise<LoopState> {
  let now = state;
  const isOpen = () => context.gates.isOpen(stage);
  while (stageOf(now) === stage && !isOpen()) {
    if (isFull(now, context)) return now;
    now = await standStill(now, context, isOpen);
    // A terminated parent admits nobody: a repeated report fails if the parent is missing.
    if (context.input.reportsEnd && !isOpen()) await context.gates.report(stage === 'reward' ? 'agent-run' : 'init');
  }
  if (stageOf(now) === stage) upsertSearchAttributes([{ key: stageKey, value: stage }]);
  return now;
}

/** The rollout waits with its sandbox, and repeats the phase when it is resumed. */
async function hold(failure: Failure, state: LoopState, context: Context): Promise<LoopState> {
  const trip = heldTrip(failure, state, context.rollout);
  context.held = trip;
  context.doing = tripLine(trip, context.input.run ?? context.rollout);
  showDoing(context);
  await reportHeld(trip, context.resumed);
  return state;
}

/** A new attempt starts: nothing of the lost one counts. */
function beginAnew(context: Context): void {
  context.clock.restart();
  context.sampledTokens = 0;
  context.reports.beginAnew();
  context.calls.beginAnew();
  context.program = null;
  context.running = null;
  context.programMs = 0;
  context.silentMs = 0;
}

/** Performs what the state asks for, and handles a failure. A sandbox that was lost or given up is released. */
async function attempted(state: LoopState, context: Context): Promise<LoopState> {
  const since = Date.now();
  const { resumed } = context;
  try {
    return reduce(state, await perform(state, context), context.limits);
  } catch (error) {
    if (isCancellation(error)) throw error;
    // If the rollout continues after this, the time was taken by machines.
    context.clock.exclude(Date.now() - since);
    const failure = classify(error);
    const { breaks, recovery, alwaysHolds = false } = FAILURES[failure.failure];
    const holds = recovery === 'hold' && (context.input.holds || alwaysHolds);
    const isRepeated = holds || (breaks && (recovery === 'mask' || recovery === 'hold'));
    // What began before a resume says nothing about the machines after it.
    if (isRepeated && context.resumed > resumed) return state;
    if (holds) return hold(failure, state, context);
    // While a run is paused, its machines are being repaired: what fails meanwhile is repeated after the resume.
    if (isRepeated && context.paused) return standStill(state, context, () => !context.paused);
    const event: LoopEvent =
      failure.failure === 'deadline' && hasDeadline(state)
        ? atDeadline(state, context, failure)
        : { type: 'failed', ...failure };
    const failed = reduce(state, event, context.limits);
    if (failed.attempt !== state.attempt) beginAnew(context);
    if (failed.attempt !== state.attempt || failed.phase === 'restore') await release(context, state);
    return failed;
  }
}
