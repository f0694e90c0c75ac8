/**
 * The phase in which a program is the agent: the rollout waits, records what the program reports, and ends the wait
 * when the program has ended or its time is over. Each call returns after one such event.
 */

import { CancellationScope, condition } from '@temporalio/workflow';
import { onAnyHost, programOn } from '../activity-stubs.ts';
import { inCode } from '../details.ts';
import { KnownFailure, withinOutage } from '../failures/classify-failure.ts';
import type { FinishReason } from '../../protocol/finish-reason.ts';
import type { RunProgramOutcome } from '../../protocol/program.ts';
import type { SandboxRef } from '../../protocol/stages.ts';
import { isLost, renewalOf } from './hold-sandbox.ts';
import { attemptOf, type Context, isCrowded, toolSecondsOf } from './rollout-context.ts';
import type { LoopEvent, LoopState } from './rollout-loop.ts';
import { showLine } from './show-doing.ts';
import { isDueToWaits } from './waited-time.ts';

/** A program in the sandbox, as this history sees it. */
export interface RunningProgram {
  /** Of its activity. */
  readonly scope: CancellationScope;
  outcome?: RunProgramOutcome;
  /** What its activity threw. */
  error?: unknown;
}

async function ended(state: LoopState, outcome: RunProgramOutcome, context: Context): Promise<LoopEvent> {
  const left = await callsBeforeEnd(state, context);
  if (left) return left;
  const { finish, ms, line } = outcome;
  context.clock.addTurn({ ms });
  context.running = null;
  showLine(context, `the program ended: ${inCode(line)}`);
  if (finish === 'deadline') return context.clock.passed(state);
  if (context.calls.spent === null && isDueToWaits(finish, context.calls.waitedMs))
    throw starved(context.calls.waitedMs);
  return { type: 'program-ended', finish: context.calls.spent ?? finish };
}

/**
 * The program's work is over: its last calls are sampled, so that no turn is missing. `undefined`: all turns are known.
 * They may wait for the end of a pause: the sandbox, which is collected after them, is renewed meanwhile. Errors: those
 * of the sampling; a `KnownFailure` if the sandbox is lost.
 */
export async function callsBeforeEnd(
  { phase, turn, attempt }: LoopState,
  context: Context,
): Promise<LoopEvent | undefined> {
  const { program, calls, sandbox } = context;
  if (phase !== 'wait' || !program?.gateway) return undefined;
  calls.end();
  const isOver = () => calls.isSettled || calls.hasFailed;
  if (!isOver()) {
    if (!sandbox) await condition(isOver);
    else if (!(await condition(isOver, renewalOf(sandbox)))) {
      await renew(sandbox, attempt, context);
      return { type: 'reported', turns: calls.recorded };
    }
  }
  if (calls.hasFailed) throw calls.takeFailure();
  return calls.recorded > turn ? { type: 'reported', turns: calls.recorded } : undefined;
}

/** What the program did without its policy is not the policy's doing. */
function starved(waitedMs: number): KnownFailure {
  const seconds = Math.round(waitedMs / 1000);
  const message =
    `The program ended without an answer, after its model calls had waited ${seconds} s for a ` + 'pause or an outage';
  return new KnownFailure({ failure: 'program-starved', message }, {});
}

/** Starts the program, or attaches to it: a repeated activity runs nothing twice. */
function run(state: LoopState, withinMs: number, context: Context): RunningProgram {
  const { sandbox, program, input } = context;
  if (!sandbox || !program) throw new TypeError('There is no sandbox in which a program runs');
  const { type, options } = input.agent;
  const scope = new CancellationScope();
  const running: RunningProgram = { scope };
  const work = scope.run(() =>
    programOn(sandbox.host, program.timeoutSeconds).runProgram({
      ...attemptOf(state, context),
      ...sandbox,
      ...(type !== undefined && { agent: { type, ...(options && { options }) } }),
      withinMs,
    }),
  );
  withinOutage(work).then(
    (outcome) => void (running.outcome = outcome),
    (error: unknown) => void (running.error = error),
  );
  return running;
}

/**
 * Ends the activity of this history, not its program, which the next history attaches to. The two never serve one door
 * together: what one refuses, the other would give a turn.
 */
export async function leaveProgram({ running }: Context): Promise<void> {
  if (running === null) return;
  running.scope.cancel();
  await condition(() => running.outcome !== undefined || running.error !== undefined);
}

/** Why a program elsewhere may report no further turn. One in the sandbox ends by itself. */
function spentBy(turns: number, { program, limits, input, sampledTokens }: Context): FinishReason | undefined {
  if (program?.runs !== 'elsewhere') return undefined;
  if (turns >= limits.maxTurns) return 'max-turns';
  return sampledTokens >= (input.agent.maxSampledTokens ?? Number.POSITIVE_INFINITY) ? 'token-budget' : undefined;
}

/** Records what follows the turns on record. */
async function record(state: LoopState, context: Context): Promise<LoopEvent> {
  const { turns, end } = context.reports.next();
  const left = end && (await callsBeforeEnd(state, context));
  if (left) return left;
  const now = state.turn + turns.length;
  await withinOutage(
    onAnyHost(toolSecondsOf(context)).recordReports({
      ...attemptOf(state, context),
      version: context.input.policy.version,
      turns,
      ...(end && { end: end.answer === undefined ? {} : { answer: end.answer } }),
    }),
  );
  context.reports.taken(now);
  showLine(context, `turn ${now} was reported${end ? ', and the end' : ''}`);
  context.sampledTokens += turns.reduce((sum, { tokens }) => sum + (tokens?.sampled.length ?? 0), 0);
  if (end) return { type: 'program-ended', turns: now, finish: context.calls.spent ?? 'answer' };
  const finish = spentBy(now, context);
  return finish ? { type: 'program-ended', turns: now, finish } : { type: 'reported', turns: now };
}

/** Nobody knows whether a program elsewhere hangs or has died, so that its rollout has no reward. */
function silent(seconds: number): KnownFailure {
  const message = `agent.options.timeoutSeconds: the program reported no end in ${seconds} s`;
  return new KnownFailure({ failure: 'program-lost', message }, {});
}

/** Errors: a `KnownFailure` if the sandbox is lost. */
async function renew(sandbox: SandboxRef, attempt: number, context: Context): Promise<void> {
  context.rounds += 1;
  if (await isLost(sandbox, attempt, context))
    throw new KnownFailure({ failure: 'sandbox-lost', message: 'The sandbox was lost while its program worked' }, {});
}

/** The next event of the wait. Errors: those of the activities. */
export async function awaitProgram(state: LoopState, withinMs: number, context: Context): Promise<LoopEvent> {
  const { program, reports, calls, sandbox } = context;
  if (!program) throw new TypeError('The agent of this rollout is no program');
  const isElsewhere = program.runs === 'elsewhere';
  if (!isElsewhere) context.running ??= run(state, withinMs, context);
  const { running } = context;
  const hasCalled = () => calls.recorded > state.turn;
  const mayWake = () =>
    reports.isReady ||
    calls.hasFailed ||
    hasCalled() ||
    running?.outcome !== undefined ||
    running?.error !== undefined ||
    (isElsewhere && (context.paused || calls.spent !== null)) ||
    isCrowded(context);
  const ownMs = program.timeoutSeconds * 1000 - context.programMs;
  const limits = isElsewhere ? [withinMs, ownMs, ...(sandbox ? [renewalOf(sandbox)] : [])] : [];
  const since = Date.now();
  if (limits.length === 0) await condition(mayWake);
  else await condition(mayWake, Math.max(1, Math.min(...limits)));
  const waitedMs = Date.now() - since;
  context.programMs += isElsewhere ? waitedMs : 0;
  context.silentMs += waitedMs;
  if (calls.hasFailed) throw calls.takeFailure();
  if (hasCalled() && !reports.isReady && running?.outcome === undefined && running?.error === undefined) {
    if (isElsewhere) context.clock.addTurn({ ms: context.silentMs });
    context.silentMs = 0;
    return { type: 'reported', turns: calls.recorded };
  }
  if (reports.isReady) {
    // A program that reports was at work until then; the silence of one that does not may be anybody's.
    if (isElsewhere) context.clock.addTurn({ ms: context.silentMs });
    context.silentMs = 0;
    return record(state, context);
  }
  if (running?.error !== undefined) {
    context.running = null;
    throw running.error;
  }
  if (running?.outcome !== undefined) return ended(state, running.outcome, context);
  if (isElsewhere && calls.spent !== null)
    return (await callsBeforeEnd(state, context)) ?? { type: 'program-ended', finish: calls.spent };
  if (!isElsewhere || context.paused) return { type: 'reported', turns: state.turn };
  if (context.programMs >= program.timeoutSeconds * 1000) throw silent(program.timeoutSeconds);
  if (sandbox && waitedMs >= renewalOf(sandbox)) await renew(sandbox, state.attempt, context);
  return { type: 'reported', turns: state.turn };
}
