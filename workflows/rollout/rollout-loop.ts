/**
 * The agent loop as a pure reducer: (state, event) -> state, and the command that the state asks for. It has no clock,
 * no randomness and no I/O, so the workflow, an in-memory runner and the tests run the very same loop.
 */

import type { FailureClass, FinishReason } from '../../protocol/finish-reason.ts';
import { FAILURES } from '../../protocol/failure-policy.ts';
import { called, type Frames, OWN_FRAMES, summarised } from '../../protocol/frames.ts';
import type { Stage } from '../../protocol/rollout.ts';
import type { ProgramCard } from '../../protocol/program.ts';
import type { AgentRunInput, GenerateOutcome } from '../../protocol/stages.ts';

export interface LoopLimits {
  readonly maxTurns: number;
  /** Attempts in all, when sandboxes are lost. */
  readonly maxAttempts: number;
  /** Lost sandboxes of one attempt that are replaced, at most. */
  readonly maxRestores: number;
}

/** The phase that continues in a replaced sandbox. */
type Resumable = 'generate' | 'act' | 'wait' | 'collect' | 'grade';

export type LoopState = Readonly<{
  phase: 'prepare' | 'restore' | 'generate' | 'act' | 'wait' | 'collect' | 'grade' | 'graded' | 'failed';
  attempt: number;
  /** Sandboxes of this attempt that were lost and replaced; absent: none. */
  restores?: number;
  /** In phase `restore`: the phase that follows. */
  resume?: Resumable;
  /** The task has no sandbox; absent: it has. */
  sandboxless?: true;
  /** The task is graded in the agent's own sandbox; absent: it is not. */
  inPlace?: true;
  /** The agent is a program, which works there; absent: it is none. */
  external?: ProgramCard['runs'];
  /** Turns started in this attempt; of a program, the turns on record. */
  turn: number;
  /** The agents at work. */
  frames: Frames;
  /** In phase `act`: the sub-agent that works after the turn's calls; absent: none. */
  callee?: string;
  finish?: FinishReason;
  reward?: number;
  passed?: boolean;
  reason?: string;
  failure?: FailureClass;
  message?: string;
}>;

export type LoopEvent =
  | {
      readonly type: 'prepared';
      readonly sandboxless?: boolean;
      readonly inPlace?: boolean;
      readonly external?: ProgramCard['runs'];
    }
  | { readonly type: 'restored'; readonly inPlace?: boolean }
  /** `agent`: the sub-agent that is called, with the kind `delegate`. */
  | {
      readonly type: 'generated';
      readonly kind: GenerateOutcome['kind'] | 'token-budget';
      readonly calls: number;
      readonly agent?: string;
    }
  /**
   * `unfinished`: a call before `finish` was refused. `collected`: the turn was the last, and the artifact was
   * collected with it. `done`: the environment ended the rollout.
   */
  | { readonly type: 'acted'; readonly unfinished?: boolean; readonly collected?: boolean; readonly done?: boolean }
  /** A program has reported turns. */
  | { readonly type: 'reported'; readonly turns: number }
  /** A program has ended. `turns`: absent if it reported none since. */
  | { readonly type: 'program-ended'; readonly finish: FinishReason; readonly turns?: number }
  | { readonly type: 'collected' }
  /** The rollout may sample no further token: its work so far is graded. */
  | { readonly type: 'out-of-tokens' }
  /** The policy itself used all its time: its work so far is graded. */
  | { readonly type: 'out-of-time' }
  | { readonly type: 'graded'; readonly reward: number; readonly passed: boolean; readonly reason?: string }
  | { readonly type: 'failed'; readonly failure: FailureClass; readonly message: string };

export const initialState: LoopState = { phase: 'prepare', attempt: 1, turn: 1, frames: OWN_FRAMES };

/** The stage of a phase; `graded` and `failed` are `done`. */
export function stageOf(state: LoopState): Stage | 'done' {
  switch (state.phase) {
    case 'prepare':
      return 'init';
    case 'restore':
    case 'generate':
    case 'act':
    case 'wait':
    case 'collect':
      return 'agent-run';
    case 'grade':
      return 'reward';
    default:
      return 'done';
  }
}

const collects = ({ sandboxless, inPlace }: LoopState): boolean => !sandboxless && !inPlace;

/** The turns are over: the artifact is collected if there is one, and graded. */
function ended(state: LoopState, finish: FinishReason): LoopState {
  return { ...state, phase: collects(state) ? 'collect' : 'grade', finish };
}

function nextTurn(state: LoopState, limits: LoopLimits): LoopState {
  return state.turn >= limits.maxTurns
    ? ended(state, 'max-turns')
    : { ...state, phase: 'generate', turn: state.turn + 1 };
}

/** The agent at work has ended: its caller continues. The rollout ends with its own agent. */
function left(state: LoopState, finish: FinishReason, limits: LoopLimits): LoopState {
  const frames = state.frames.slice(0, -1);
  return frames.length === 0 ? ended(state, finish) : nextTurn({ ...state, frames }, limits);
}

/** Sub-agent `name` continues in place of the agent at work. */
function entered(state: LoopState, name: string, limits: LoopLimits): LoopState {
  return nextTurn({ ...state, frames: called(state.frames, name, state.turn) }, limits);
}

type Generated = Extract<LoopEvent, { type: 'generated' }>;

function afterGenerate(state: LoopState, { kind, calls, agent = '' }: Generated, limits: LoopLimits): LoopState {
  switch (kind) {
    case 'act':
    case 'step':
      return { ...state, phase: 'act' };
    case 'reply':
      return nextTurn(state, limits);
    case 'summarise':
      return nextTurn({ ...state, frames: summarised(state.frames) }, limits);
    case 'delegate':
      return calls > 0 ? { ...state, phase: 'act', callee: agent } : entered(state, agent, limits);
    case 'finish':
      return calls > 0 ? { ...state, phase: 'act', finish: 'finish-tool' } : left(state, 'finish-tool', limits);
    case 'answer':
    case 'context':
    case 'response-cut':
    case 'refused':
      return left(state, kind, limits);
    case 'token-budget':
      return ended(state, kind);
  }
}

/** If a call was refused, `finish` does not count, nor the call of a sub-agent: the policy has not seen it yet. */
function afterAct(
  { finish, callee, ...state }: LoopState,
  { unfinished, done }: Extract<LoopEvent, { type: 'acted' }>,
  limits: LoopLimits,
): LoopState {
  if (done) return ended(state, 'done');
  if (callee !== undefined && !unfinished) return entered(state, callee, limits);
  return finish === undefined || unfinished ? nextTurn(state, limits) : left(state, finish, limits);
}

/** When the artifact is collected together with the turn's calls, because the turn may be the last one. */
export function collectsWith(state: LoopState, limits: LoopLimits): AgentRunInput['collect'] {
  const { turn, finish, frames } = state;
  if (!collects(state)) return undefined;
  if (turn >= limits.maxTurns) return 'always';
  return finish === undefined || frames.length > 1 ? undefined : 'if-finished';
}

/**
 * The phase to resume after the sandbox is replaced. A sandbox is lost in `prepare` only if the attempt has acted
 * before.
 */
function resumableOf({ phase, resume, inPlace }: LoopState): Resumable | undefined {
  if (phase === 'restore') return resume;
  if (phase === 'prepare') return 'generate';
  if (phase === 'grade') return inPlace ? 'grade' : undefined;
  return phase === 'generate' || phase === 'act' || phase === 'wait' || phase === 'collect' ? phase : undefined;
}

/** Recovers as the failure's class says, within the limits. A grader's sandbox does not count as the rollout's. */
function afterFailure(state: LoopState, failure: FailureClass, message: string, limits: LoopLimits): LoopState {
  const { recovery } = FAILURES[failure];
  const resume = resumableOf(state);
  const restores = (state.restores ?? 0) + 1;
  if ((recovery === 'resume' || recovery === 'restart') && resume !== undefined) {
    // What a program did in its sandbox is nowhere else.
    if (recovery === 'resume' && !state.external && restores <= limits.maxRestores)
      return { ...state, phase: 'restore', restores, resume };
    if (state.attempt < limits.maxAttempts) return { ...initialState, attempt: state.attempt + 1 };
  }
  const { resume: _, ...ended } = state;
  return { ...ended, phase: 'failed', failure, message };
}

/** A sandbox that was lost while it was prepared is known here first to be the place of grading. */
function afterRestore({ resume, ...state }: LoopState, inPlace: boolean | undefined): LoopState {
  return { ...state, phase: resume ?? 'generate', ...(inPlace && { inPlace }) };
}

/** The state after `event`. Errors: a `TypeError` for an event that the phase does not wait for. */
export function reduce(state: LoopState, event: LoopEvent, limits: LoopLimits): LoopState {
  if (event.type === 'failed') return afterFailure(state, event.failure, event.message, limits);
  const { phase } = state;
  if (phase === 'prepare' && event.type === 'prepared') {
    const { sandboxless, inPlace, external } = event;
    const placed = { ...(sandboxless && { sandboxless }), ...(inPlace && { inPlace }) };
    return external
      ? { ...state, ...placed, phase: 'wait', external, turn: 0 }
      : { ...state, ...placed, phase: 'generate' };
  }
  if (phase === 'restore' && event.type === 'restored') return afterRestore(state, event.inPlace);
  if (phase === 'generate' && event.type === 'generated') return afterGenerate(state, event, limits);
  if (phase === 'act' && event.type === 'acted') {
    const next = afterAct(state, event, limits);
    return event.collected ? reduce(next, { type: 'collected' }, limits) : next;
  }
  if (phase === 'wait' && event.type === 'reported') return { ...state, turn: event.turns };
  if (phase === 'wait' && event.type === 'program-ended')
    return ended({ ...state, turn: event.turns ?? state.turn }, event.finish);
  if ((phase === 'generate' || phase === 'act' || phase === 'wait') && event.type === 'out-of-time') {
    // A turn that was not sampled in time does not count, even if a worker still records it.
    return ended({ ...state, turn: phase === 'generate' ? state.turn - 1 : state.turn }, 'deadline');
  }
  if (phase === 'generate' && event.type === 'out-of-tokens')
    return ended({ ...state, turn: state.turn - 1 }, 'token-budget');
  if (phase === 'collect' && event.type === 'collected') return { ...state, phase: 'grade' };
  if (phase === 'grade' && event.type === 'graded') {
    const { reward, passed, reason } = event;
    return { ...state, phase: 'graded', reward, passed, ...(reason === undefined ? {} : { reason }) };
  }
  throw new TypeError(`The loop in phase ${phase} does not wait for ${event.type}`);
}
