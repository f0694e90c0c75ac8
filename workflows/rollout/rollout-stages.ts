/**
 * The activities of each phase of a rollout's loop, and what Temporal's UI shows meanwhile. Nothing here decides what
 * comes next: the loop does.
 */

import { CancellationScope, workflowInfo } from '@temporalio/workflow';
import type { Failure } from '../../protocol/finish-reason.ts';
import { gradingOn, init, onAnyHost, onHost, releasing, reward } from '../activity-stubs.ts';
import { inCode } from '../details.ts';
import { checkEndpointOnce, checkJudgesOnce } from './check-endpoint.ts';
import { placeOf, placeText } from '../../protocol/frames.ts';
import { KnownFailure, withinOutage } from '../failures/classify-failure.ts';
import { BUDGET } from '../../protocol/failure-policy.ts';
import { collectsWith, type LoopEvent, type LoopState } from './rollout-loop.ts';
import type { Asking, Attempt, Card, CollectOutcome, SandboxRef } from '../../protocol/stages.ts';
import { askingOf, attemptOf, type Context, toolSecondsOf } from './rollout-context.ts';
import { awaitProgram, callsBeforeEnd } from './await-program.ts';
import { agentOf, contextOf, sampled } from './sample-turn.ts';
import { showDoing, showLine } from './show-doing.ts';

/** A turn's calls take at most four times a call's limit, so they need not know a deadline that is further away. */
const NEAR_IN_LIMITS = 4;

/**
 * True if the deadline applies: it does not while the rollout is collected and graded. The sandbox ends a program in
 * time.
 */
export function hasDeadline({ phase, external }: LoopState): boolean {
  return phase !== 'collect' && phase !== 'grade' && !(phase === 'wait' && external === 'sandbox');
}

/** The event for a deadline that has passed. `failure`: reported by the activity that ran with the remaining time. */
export function atDeadline(state: LoopState, { clock }: Context, failure?: Failure): LoopEvent {
  const event = clock.passed(state);
  if (event.type === 'failed') return { ...event, ...failure };
  return event;
}

/** Performs one phase. Errors: those of its activity. A deadline that has passed is an event, not an error. */
export async function perform(state: LoopState, context: Context): Promise<LoopEvent> {
  const attempt = attemptOf(state, context);
  const withinMs = context.clock.leftMs(Date.now());
  if (withinMs <= 0 && hasDeadline(state)) return (await callsBeforeEnd(state, context)) ?? atDeadline(state, context);
  begin(context, state);
  const asking = askingOf(context);
  switch (state.phase) {
    case 'prepare':
      await checkPolicy(state, context);
      return prepare({ ...attempt, ...asking }, context);
    case 'restore': {
      const lost = {
        ...attempt,
        ...asking,
        ...agentOf(context.input),
        restore: state.restores ?? 1,
        toolTimeoutSeconds: toolSecondsOf(context),
      };
      return { type: 'restored', ...placed(await lostTime(context, init.restoreSandbox(lost)), context) };
    }
    case 'generate':
      return generate(attempt, state, withinMs, context);
    case 'act':
      return act(attempt, state, withinMs, context);
    case 'wait':
      return awaitProgram(state, withinMs, context);
    case 'collect':
      take(await withinOutage(hostOf(context).collect({ ...attempt, ...sandboxOf(context) })), context);
      return { type: 'collected' };
    case 'grade':
      return grade(attempt, state, context);
    default:
      throw new TypeError(`Phase ${state.phase} asks for nothing`);
  }
}

/** A budget that nobody counts would have no effect. */
function uncounted(maxSampledTokens: number): KnownFailure {
  const remedy =
    'leave it out, or set agent.options.gateway: true, or agent.options.tokens: true if the program reports its tokens';
  const message = `agent.maxSampledTokens: ${maxSampledTokens} cannot be used; ${remedy}`;
  return new KnownFailure({ failure: 'bad-input', message }, {});
}

async function prepare(attempt: Attempt & Asking, context: Context): Promise<LoopEvent> {
  const card = await lostTime(context, init.prepare({ ...attempt, ...agentOf(context.input) }));
  context.clock.start(Date.now());
  // A script acts in the program's place.
  context.program = 'scripted' in context.input.policy ? null : (card.program ?? null);
  const { runs: external, tokens = true, gateway = false } = context.program ?? {};
  const { maxSampledTokens } = context.input.agent;
  if (!tokens && !gateway && maxSampledTokens !== undefined) throw uncounted(maxSampledTokens);
  return {
    type: 'prepared',
    sandboxless: card.sandbox === null,
    ...placed(card, context),
    ...(external && { external }),
  };
}

/** Keeps what the card says. */
function placed({ sandbox, gradedIn, limits = {} }: Card, context: Context): { readonly inPlace: boolean } {
  context.sandbox = sandbox;
  context.taskLimits = limits;
  return { inPlace: gradedIn === 'agents' };
}

/** Time to prepare a sandbox does not count as the rollout's own: neither the first one nor a replacement. */
async function lostTime<T>({ clock }: Context, work: Promise<T>): Promise<T> {
  const since = Date.now();
  const made = await withinOutage(work);
  clock.exclude(Date.now() - since);
  return made;
}

async function act(attempt: Attempt, state: LoopState, withinMs: number, context: Context): Promise<LoopEvent> {
  const toolTimeoutSeconds = toolSecondsOf(context);
  const { sandbox } = context;
  const collect = collectsWith(state, context.limits);
  const isShort = withinMs < NEAR_IN_LIMITS * toolTimeoutSeconds * 1000;
  const input = {
    ...attempt,
    ...askingOf(context),
    ...sandbox,
    turn: state.turn,
    toolTimeoutSeconds,
    ...(isShort && { withinMs }),
    ...(collect === undefined ? {} : { collect }),
  };
  const outcome = await (sandbox ? onHost(sandbox.host, toolTimeoutSeconds) : onAnyHost(toolTimeoutSeconds)).agentRun(
    input,
  );
  const { line, unfinished = false, done = false, collected } = outcome;
  context.clock.addTurn(outcome);
  showLine(context, `answer to turn ${state.turn}: ${inCode(line)}`);
  if (collected) take(collected, context);
  return { type: 'acted', unfinished, done, collected: collected !== undefined };
}

/** Keeps what was collected; its sandbox was released. */
function take(collected: CollectOutcome, context: Context): void {
  context.collected = collected;
  context.sandbox = null;
}

async function generate(
  attempt: Attempt,
  { turn, frames }: LoopState,
  withinMs: number,
  context: Context,
): Promise<LoopEvent> {
  const { input } = context;
  const { maxTurns, maxDepth, maxSegments } = input.agent;
  const place = placeOf(frames);
  const left = (input.agent.maxSampledTokens ?? Number.POSITIVE_INFINITY) - context.sampledTokens;
  if (left <= 0) return { type: 'out-of-tokens' };
  const outcome = await sampled(attempt.attempt, context, {
    ...attempt,
    ...place,
    limits: { maxTurns, maxDepth, maxSegments },
    withinMs,
    turn,
    policy: input.policy,
    ...('scripted' in input.policy && { sample: input.sample }),
    sampling: { ...input.sampling, maxTokens: Math.min(input.sampling.maxTokens, left) },
    ...contextOf(input),
    ...agentOf(input),
    noiseKey: `${input.seed}/${input.step}/${input.task}/${input.sample}/${turn}`,
  });
  context.contextTokens = outcome.contextTokens;
  context.sampledTokens += outcome.sampledTokens;
  context.clock.addTurn(outcome);
  context.worker = outcome.worker ?? null;
  const { kind, calls, agent } = outcome;
  const where = placeText(place);
  showLine(context, `turn ${turn}${where && ` (${where})`}: ${inCode(outcome.line)}`);
  const isCutHere = kind === 'response-cut' && left < input.sampling.maxTokens;
  return { type: 'generated', kind: isCutHere ? 'token-budget' : kind, calls, ...(agent !== undefined && { agent }) };
}

/** A rollout with a parent needs no check: the client that started the sweep or batch has checked the endpoint. */
async function checkPolicy({ attempt }: LoopState, { input: { policy, run, judges } }: Context): Promise<void> {
  if (attempt > 1 || workflowInfo().parent) return;
  await checkJudgesOnce(run, judges);
  if (!('endpoint' in policy)) return;
  await checkEndpointOnce({ run, endpoint: policy.endpoint, field: 'policy.endpoint' });
}

async function grade(attempt: Attempt, { finish, turn, inPlace }: LoopState, context: Context): Promise<LoopEvent> {
  if (!finish) throw new TypeError('The rollout has not finished');
  const artifact = context.collected?.artifact;
  const { gradeSeconds } = context.taskLimits;
  const input = { ...attempt, ...askingOf(context), ...(artifact && { artifact }), finish, turns: turn };
  const verdict = await withinOutage(
    inPlace
      ? gradingOn(sandboxOf(context).host, gradeSeconds).gradeInPlace({ ...input, ...sandboxOf(context) })
      : reward(gradeSeconds).computeReward(input),
  );
  return verdict.code === 'graded'
    ? { type: 'graded', reward: verdict.reward, passed: verdict.passed, reason: verdict.reason }
    : { type: 'failed', failure: 'grader-failed', message: verdict.reason };
}

function sandboxOf(context: Context): SandboxRef {
  if (!context.sandbox) throw new TypeError('There is no sandbox');
  return context.sandbox;
}

function hostOf(context: Context) {
  return onHost(sandboxOf(context).host, toolSecondsOf(context));
}

function begin(context: Context, { phase, attempt, turn, restores }: LoopState): void {
  const where = phase === 'act' || phase === 'collect' ? ` on ${context.sandbox?.host ?? 'no host'}` : '';
  const again = phase === 'restore' ? `, sandbox ${restores ?? 0} of ${BUDGET.restores} lost` : '';
  context.doing = `${phase}${where} since ${new Date().toISOString()} (attempt ${attempt}, turn ${turn}${again})`;
  showDoing(context);
}

/** Waits only briefly: if the release fails, the host's sweeper removes the sandbox when its lease has expired. */
export async function release(context: Context, state: LoopState): Promise<void> {
  const { sandbox } = context;
  if (!sandbox) return;
  context.sandbox = null;
  const attempt = attemptOf(state, context);
  await CancellationScope.nonCancellable(async () => {
    try {
      await releasing(sandbox.host).releaseSandbox({ ...attempt, ...sandbox });
    } catch {
      // The sweeper removes it.
    }
  });
}
