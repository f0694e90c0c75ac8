/**
 * One rollout: prepare a sandbox, let policy and tools take turns, collect, release, grade. It ends with a result
 * whatever happens to sandboxes, engine and graders; only cancellation is thrown on. The sandbox is always released.
 * A long one goes on in a new history at a turn, with its sandbox and with everything that it was told.
 */

import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  isCancellation,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { gpu, init, onEndpoint, onHost, reward } from './activities.ts';
import { checkEndpointOnce } from './check-endpoint.ts';
import { classify } from './classify-failure.ts';
import { hearSignals, on } from './hear-signals.ts';
import { initialState, type LoopEvent, type LoopLimits, type LoopState, reduce, stageOf } from './rollout-loop.ts';
import { failureKey, finishKey, rewardKey, stageKey } from './search-attributes.ts';
import { type ResolvedRollout, resolveRollout } from './resolve-rollout.ts';
import { proceedSignal, StageGates } from './stage-gates.ts';
import type { Attempt, CollectOutcome, GatedStage, GenerateInput, GenerateOutcome, RolloutInput, RolloutResult, SandboxRef } from './types.ts';

export interface RolloutState extends LoopState {
  readonly task: string;
  readonly paused: boolean;
  readonly contextTokens: number;
}

export const stateQuery = defineQuery<RolloutState>('state');
export const pauseSignal = defineSignal('pause');
export const resumeSignal = defineSignal('resume');

/** What only the running workflow knows beside the loop's state. */
interface Context {
  readonly input: ResolvedRollout;
  readonly rollout: string;
  readonly gates: StageGates;
  sandbox: SandboxRef | null;
  collected: CollectOutcome | null;
  contextTokens: number;
  lines: readonly string[];
  paused: boolean;
  /** Turns, and renewals of a waiting rollout's sandbox, in this history: twelve events each at most, two more with an endpoint. */
  rounds: number;
}

/** Carried over continue-as-new, which happens at the begin of a turn. */
export interface RolloutProgress extends Pick<Context, 'sandbox' | 'contextTokens' | 'lines' | 'paused'> {
  readonly state: LoopState;
  readonly allowed: readonly GatedStage[];
}

/** Below the 4,096 events at which Temporal suggests a new history. */
const ROUNDS_PER_HISTORY = 300;
/** Lines that Temporal's UI shows of a rollout. */
const LINES = 20;
/** Of sandboxes whose host did not say how long they live. */
const DEFAULT_TTL_SECONDS = 1800;

async function perform(state: LoopState, context: Context): Promise<LoopEvent> {
  const { input, rollout } = context;
  const attempt: Attempt = { run: input.run, rollout, attempt: state.attempt, task: input.task };
  switch (state.phase) {
    case 'prepare':
      await checkPolicy(state, context);
      context.sandbox = await init.prepareSandbox(attempt);
      return { type: 'prepared' };
    case 'generate': {
      const outcome = await sampled(state.attempt, context, {
        ...attempt,
        turn: state.turn,
        policy: input.policy,
        sampling: input.sampling,
        maxContextTokens: input.agent.maxContextTokens,
        noiseKey: `${input.seed}/${input.step}/${input.task}/${input.sample}/${state.turn}`,
      });
      context.contextTokens = outcome.contextTokens;
      tell(context, `${state.turn}. ${outcome.line}`);
      return { type: 'generated', kind: outcome.kind, calls: outcome.calls };
    }
    case 'act': {
      const outcome = await hostOf(context).agentRun({
        ...attempt,
        ...sandboxOf(context),
        turn: state.turn,
        toolTimeoutSeconds: input.agent.toolTimeoutSeconds,
      });
      tell(context, `   ${outcome.line}`);
      return { type: 'acted' };
    }
    case 'collect':
      context.collected = await hostOf(context).collect({ ...attempt, ...sandboxOf(context) });
      context.sandbox = null;
      return { type: 'collected' };
    case 'grade': {
      if (!context.collected || !state.finish) throw new TypeError('Nothing was collected to grade');
      const verdict = await reward.computeReward({
        ...attempt,
        artifact: context.collected.artifact,
        finish: state.finish,
        turns: state.turn,
      });
      return verdict.code === 'graded'
        ? { type: 'graded', reward: verdict.reward, passed: verdict.passed }
        : { type: 'failed', failure: 'grader-failed', message: verdict.reason };
    }
    default:
      throw new TypeError(`Phase ${state.phase} asks for nothing`);
  }
}

/** Who started a sweep or a batch has asked its endpoint already. */
async function checkPolicy({ attempt }: LoopState, { input: { policy, run } }: Context): Promise<void> {
  if (!('endpoint' in policy) || attempt > 1 || workflowInfo().parent) return;
  await checkEndpointOnce({ run, endpoint: policy.endpoint, field: 'policy.endpoint' });
}

/** A server may be down for longer than a sandbox lives without being used: it is held meanwhile. */
async function sampled(attempt: number, context: Context, input: GenerateInput): Promise<GenerateOutcome> {
  const { policy } = input;
  if (!('endpoint' in policy)) return gpu.generate(input);
  const sandbox = sandboxOf(context);
  let over = false;
  const work = onEndpoint(policy.endpoint).generate(input).finally(() => {
    over = true;
  });
  work.catch(() => undefined);
  // One that is lost is found out by the tools, if sampling ends well.
  while (!(await condition(() => over, renewalOf(sandbox)))) {
    context.rounds += 1;
    if (await isLost(sandbox, attempt, context)) break;
  }
  return work;
}

function sandboxOf(context: Context): SandboxRef {
  if (!context.sandbox) throw new TypeError('There is no sandbox');
  return context.sandbox;
}

function hostOf(context: Context) {
  return onHost(sandboxOf(context).host, context.input.agent.toolTimeoutSeconds);
}

/** Shown in Temporal's UI while the rollout runs. */
function tell(context: Context, line: string): void {
  context.lines = [...context.lines, line].slice(-LINES);
  setCurrentDetails(context.lines.join('\n\n'));
}

async function release(context: Context, state: LoopState): Promise<void> {
  const { sandbox, input, rollout } = context;
  if (!sandbox) return;
  context.sandbox = null;
  const attempt: Attempt = { run: input.run, rollout, attempt: state.attempt, task: input.task };
  await CancellationScope.nonCancellable(async () => {
    try {
      await onHost(sandbox.host, input.agent.toolTimeoutSeconds).releaseSandbox({ ...attempt, ...sandbox });
    } catch {
      // Its lease ends it: the sweeper of that host takes what could not be released.
    }
  });
}

function resultOf(state: LoopState, context: Context): RolloutResult {
  const { reward: value, passed, finish, failure, message } = state;
  return {
    rollout: context.rollout,
    task: context.input.task,
    status: state.phase === 'graded' ? 'graded' : 'failed',
    attempt: state.attempt,
    turns: state.turn,
    ...(value === undefined ? {} : { reward: value }),
    ...(passed === undefined ? {} : { passed }),
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

function contextOf(given: RolloutInput, progress: RolloutProgress | undefined): Context {
  const { workflowId: rollout } = workflowInfo();
  const input = resolveRollout(given, rollout);
  const { allowed = [], sandbox = null, contextTokens = 0, lines = [], paused = false } = progress ?? {};
  const gates = new StageGates(input.gates, allowed);
  return { input, rollout, gates, sandbox, contextTokens, lines, paused, collected: null, rounds: 0 };
}

function progressOf(state: LoopState, { sandbox, contextTokens, lines, paused, gates }: Context): RolloutProgress {
  return { state, sandbox, contextTokens, lines, paused, allowed: gates.allowed };
}

/** `progress` is for continue-as-new alone. */
export async function rollout(given: RolloutInput, progress?: RolloutProgress): Promise<RolloutResult> {
  const context = contextOf(given, progress);
  const limits = { maxTurns: context.input.agent.maxTurns, maxAttempts: 3 };
  let state = progress?.state ?? initialState;
  setHandler(stateQuery, () => ({ ...state, task: context.input.task, paused: context.paused, contextTokens: context.contextTokens }));
  hearSignals(
    on(pauseSignal, () => void (context.paused = true)),
    on(resumeSignal, () => void (context.paused = false)),
    on(proceedSignal, (stage) => context.gates.allow(stage)),
  );

  let goesOn = false;
  try {
    while (stageOf(state) !== 'done' && !goesOn) {
      if (isFull(state, context)) {
        await condition(allHandlersFinished);
        goesOn = true;
      } else state = await (mustWait(state, context) ? standStill(state, context, limits, () => !context.paused) : advance(state, context, limits));
    }
  } finally {
    if (!goesOn) await release(context, state);
  }
  if (goesOn) await continueAsNew<typeof rollout>(given, progressOf(state, context));
  publishEnd(state);
  return resultOf(state, context);
}

function isFull({ phase }: LoopState, { rounds }: Context): boolean {
  return phase === 'generate' && (rounds >= ROUNDS_PER_HISTORY || workflowInfo().continueAsNewSuggested);
}

/** A paused rollout ends its turn, and then begins nothing; after its last turn it is collected and graded. */
function mustWait({ phase }: LoopState, { paused }: Context): boolean {
  return paused && (phase === 'prepare' || phase === 'generate');
}

/** Renews the sandbox of a rollout that waits; whether it is lost. */
async function isLost(sandbox: SandboxRef, attempt: number, { input, rollout: id }: Context): Promise<boolean> {
  try {
    await onHost(sandbox.host, input.agent.toolTimeoutSeconds).holdSandbox({ run: input.run, rollout: id, attempt, task: input.task, ...sandbox });
    return false;
  } catch (error) {
    if (isCancellation(error)) throw error;
    // Another failure says nothing of the sandbox: it is tried again, and in the end by the next tool call.
    return classify(error).failure === 'sandbox-lost';
  }
}

/** Milliseconds after which a sandbox that nobody uses is renewed. */
function renewalOf({ ttlSeconds = DEFAULT_TTL_SECONDS }: SandboxRef): number {
  return Math.max(1000, (ttlSeconds * 1000) / 3);
}

/** Until it may go on, or for as long as its sandbox lives without being renewed. */
async function standStill(state: LoopState, context: Context, limits: LoopLimits, mayGoOn: () => boolean): Promise<LoopState> {
  const { sandbox } = context;
  if (!sandbox) {
    await condition(mayGoOn);
    return state;
  }
  if (await condition(mayGoOn, renewalOf(sandbox))) return state;
  context.rounds += 1;
  if (!(await isLost(sandbox, state.attempt, context))) return state;
  await release(context, state);
  return reduce(state, { type: 'failed', failure: 'sandbox-lost', message: 'The sandbox was lost while the rollout stood still' }, limits);
}

/** One step of the loop, and what a stage's end asks for. */
async function advance(state: LoopState, context: Context, limits: LoopLimits): Promise<LoopState> {
  if (state.phase === 'generate') context.rounds += 1;
  const next = await attempted(state, context, limits);
  const before = stageOf(state);
  const after = stageOf(next);
  if (before === after || before === 'done' || after === 'init' || after === 'done') return next;
  await context.gates.report(before);
  const letIn = await atGate(next, after, context, limits);
  if (stageOf(letIn) === after) upsertSearchAttributes([{ key: stageKey, value: after }]);
  return letIn;
}

/** Until the parent lets it in; the sandbox is kept alive meanwhile, and may be found lost. */
async function atGate(state: LoopState, stage: GatedStage, context: Context, limits: LoopLimits): Promise<LoopState> {
  let now = state;
  const isOpen = () => context.gates.isOpen(stage);
  while (stageOf(now) === stage && !isOpen()) now = await standStill(now, context, limits, isOpen);
  return now;
}

/** What the state asks for, its failure included; the sandbox of an attempt that is given up is released. */
async function attempted(state: LoopState, context: Context, limits: LoopLimits): Promise<LoopState> {
  try {
    return reduce(state, await perform(state, context), limits);
  } catch (error) {
    if (isCancellation(error)) throw error;
    const failed = reduce(state, { type: 'failed', ...classify(error) }, limits);
    if (failed.attempt !== state.attempt) await release(context, state);
    return failed;
  }
}
