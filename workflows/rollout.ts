/**
 * One rollout: prepare a sandbox, let policy and tools take turns, collect, release, grade. It ends with a result
 * whatever happens to sandboxes, engine and graders; only cancellation is thrown on. The sandbox is always released.
 */

import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  condition,
  defineQuery,
  defineSignal,
  getExternalWorkflowHandle,
  isCancellation,
  rootCause,
  setCurrentDetails,
  setHandler,
  TimeoutFailure,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { FailureClass } from '../agents/finish-reason.ts';
import { gpu, init, onHost, reward } from './activities.ts';
import { initialState, type LoopEvent, type LoopState, reduce, stageOf } from './rollout-loop.ts';
import { failureKey, finishKey, rewardKey, stageKey } from './search-attributes.ts';
import { type ResolvedRollout, resolveRollout } from './resolve-rollout.ts';
import type { Attempt, CollectOutcome, GatedStage, RolloutInput, RolloutResult, SandboxRef } from './types.ts';

export interface RolloutState extends LoopState {
  readonly task: string;
  readonly paused: boolean;
  readonly contextTokens: number;
}

export const stateQuery = defineQuery<RolloutState>('state');
export const pauseSignal = defineSignal('pause');
export const resumeSignal = defineSignal('resume');
/** From the parent: the named stage may begin. */
export const proceedSignal = defineSignal<[GatedStage]>('proceed');
/** To the parent: this child's stage has ended. */
export const stageEndedSignal = defineSignal<[string, 'init' | GatedStage]>('stageEnded');

/** What only the running workflow knows beside the loop's state. */
interface Context {
  readonly input: ResolvedRollout;
  readonly rollout: string;
  sandbox: SandboxRef | null;
  collected: CollectOutcome | null;
  contextTokens: number;
  lines: string[];
}

const CLASSES: Readonly<Record<string, FailureClass>> = {
  SandboxLost: 'sandbox-lost',
  SandboxUnavailable: 'sandbox-unavailable',
  SandboxImpossible: 'sandbox-unavailable',
  EngineLost: 'engine-lost',
  GraderFailed: 'grader-failed',
  UserInputError: 'bad-input',
};

/** Sorts an activity's final failure by its class name, and a deadline that passed by its stage. */
function classify(error: unknown): { failure: FailureClass; message: string } {
  if (!(error instanceof ActivityFailure)) throw error;
  const message = (rootCause(error) ?? error.message).slice(0, 300);
  if (error.cause instanceof ApplicationFailure) {
    return { failure: CLASSES[error.cause.type ?? ''] ?? 'internal', message };
  }
  if (error.cause instanceof TimeoutFailure) {
    const hostGone = error.cause.timeoutType === 'SCHEDULE_TO_START';
    return { failure: hostGone ? 'sandbox-lost' : 'deadline', message };
  }
  return { failure: 'internal', message };
}

async function perform(state: LoopState, context: Context): Promise<LoopEvent> {
  const { input, rollout } = context;
  const attempt: Attempt = { run: input.run, rollout, attempt: state.attempt, task: input.task };
  switch (state.phase) {
    case 'prepare':
      context.sandbox = await init.prepareSandbox(attempt);
      return { type: 'prepared' };
    case 'generate': {
      const outcome = await gpu.generate({
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

function sandboxOf(context: Context): SandboxRef {
  if (!context.sandbox) throw new TypeError('There is no sandbox');
  return context.sandbox;
}

function hostOf(context: Context) {
  return onHost(sandboxOf(context).host, context.input.agent.toolTimeoutSeconds);
}

/** Shown in Temporal's UI while the rollout runs. */
function tell(context: Context, line: string): void {
  context.lines.push(line);
  setCurrentDetails(context.lines.slice(-20).join('\n\n'));
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

/** Waits for the parent's word where a stage is gated, and tells it of the stage that ended. */
class Gates {
  readonly #allowed = new Set<GatedStage>();
  readonly #gated: ReadonlySet<GatedStage>;

  constructor(gated: readonly GatedStage[]) {
    this.#gated = new Set(gated);
    setHandler(proceedSignal, (stage) => void this.#allowed.add(stage));
  }

  async pass(ended: 'init' | GatedStage, next: GatedStage): Promise<void> {
    const { parent, workflowId } = workflowInfo();
    if (!parent || this.#gated.size === 0) return;
    await getExternalWorkflowHandle(parent.workflowId).signal(stageEndedSignal, workflowId, ended);
    if (this.#gated.has(next)) await condition(() => this.#allowed.has(next));
  }
}

export async function rollout(given: RolloutInput): Promise<RolloutResult> {
  const { workflowId } = workflowInfo();
  const input = resolveRollout(given, workflowId);
  const context: Context = { input, rollout: workflowId, sandbox: null, collected: null, contextTokens: 0, lines: [] };
  const limits = { maxTurns: input.agent.maxTurns, maxAttempts: 3 };
  let state = initialState;
  let paused = false;
  setHandler(stateQuery, () => ({ ...state, task: input.task, paused, contextTokens: context.contextTokens }));
  setHandler(pauseSignal, () => void (paused = true));
  setHandler(resumeSignal, () => void (paused = false));
  const gates = new Gates(input.gates);

  try {
    while (stageOf(state) !== 'done') {
      if (paused) await condition(() => !paused);
      const before = stageOf(state);
      state = await step(state, context, limits);
      const after = stageOf(state);
      if (before === after || before === 'done' || after === 'init') continue;
      if (after === 'done') break;
      await gates.pass(before, after);
      upsertSearchAttributes([{ key: stageKey, value: after }]);
    }
  } finally {
    await release(context, state);
  }
  publishEnd(state);
  return resultOf(state, context);
}

async function step(state: LoopState, context: Context, limits: Parameters<typeof reduce>[2]): Promise<LoopState> {
  try {
    return reduce(state, await perform(state, context), limits);
  } catch (error) {
    if (isCancellation(error)) throw error;
    const failed = reduce(state, { type: 'failed', ...classify(error) }, limits);
    if (failed.attempt !== state.attempt) await release(context, state);
    return failed;
  }
}
