/** A turn whose message goes to the environment: its `step` reads the message, and its answer is recorded once. */

import type { ActRecord, GenerateRecord, StartRecord } from '../../protocol/records.ts';
import { attemptKey, keys } from '../../protocol/record-keys.ts';
import { spoken } from '../../protocol/transcript.ts';
import type { Asking, Attempt } from '../../protocol/stages.ts';
import { workspaceDigest } from '../../sandboxes/workspace-digest.ts';
import { lastActBefore } from '../../store/read-records.ts';
import { MAIN, type StepResult, type Task } from '../../tasks/environment.ts';
import { type AskDeps, withAsk } from '../ask.ts';
import { EnvironmentFailed } from '../failures.ts';
import { blameOwnCode } from '../own-code.ts';
import { timed } from './message-budget.ts';
import { replayMsOf } from './snapshots.ts';
import { contextOver, type SandboxPlace, withFurtherSandboxes } from '../task-context.ts';
import type { TaskSandboxes } from '../task-sandboxes.ts';

/** An attempt at one of its turns. */
export interface Stepping {
  readonly attempt: Attempt & Asking & { readonly withinMs?: number };
  readonly task: Task;
  /** The attempt's own; empty if the task has none. */
  readonly sandboxes: TaskSandboxes;
  readonly place: SandboxPlace & AskDeps;
  readonly signal: AbortSignal;
}

/** The state that `step` gets in `turn`: of the last step before it, or of `start`. */
export async function stateBefore(
  turn: number,
  attempt: Attempt,
  store: SandboxPlace['store'],
): Promise<ActRecord['state']> {
  const stepped = await lastActBefore(turn, attempt, store, ({ state }) => state !== undefined);
  return stepped === undefined ? (await store.get<StartRecord>(keys.start(attempt)))?.state : stepped.state;
}

function checked(result: StepResult | undefined, key: string): StepResult {
  const given = result as Partial<StepResult> | undefined;
  const isOne =
    typeof given === 'object' && given !== null && Array.isArray(given.messages) && given.state !== undefined;
  if (result !== undefined && isOne && (given.reward === undefined || Number.isFinite(given.reward))) return result;
  throw new EnvironmentFailed(
    `step of ${key} returned ${JSON.stringify(result)?.slice(0, 200) ?? 'nothing'}: return { state, messages, ` +
      'done, reward }',
  );
}

/** Calls `step` with the turn's message. Errors: `EnvironmentFailed`; those of the sandbox. */
async function answer({ attempt, task, sandboxes, place, signal }: Stepping, turn: number): Promise<StepResult> {
  const { store } = place;
  const record = await store.get<GenerateRecord>(keys.generate(attempt, turn));
  if (record === undefined) throw new Error(`${keys.generate(attempt, turn)} is not recorded`);
  if (task.step === undefined) throw new EnvironmentFailed(`task ${attempt.task} has no function step`);
  const state = await stateBefore(turn, attempt, store);
  const name = `${attemptKey(attempt)}/${turn}`;
  const execution = await store.begin(`step:${name}`);
  const { agentPath } = record;
  const named = { key: attempt.task, id: `${name}/step`, execution, signal, ...(agentPath && { agentPath }) };
  const by = { attempt, place: `step/${turn}`, signal, withinMs: attempt.withinMs };
  const result = await withFurtherSandboxes(place, attempt.rollout, (further) =>
    withAsk(by, place, async (asks) =>
      task.step?.(contextOver(sandboxes, further, { ...named, ...asks }), state, spoken(record).content),
    ),
  ).catch((error: unknown) => blameOwnCode(error, 'step', (message) => new EnvironmentFailed(message)));
  return checked(result, attempt.task);
}

/** Runs the turn's step if it has no record. */
export async function stepTurn(stepping: Stepping, turn: number): Promise<ActRecord> {
  const { attempt, sandboxes, place } = stepping;
  const sandbox = sandboxes[MAIN];
  let ms = 0;
  const clocked = Object.entries(sandboxes).map(([name, one]) => [name, timed(one, (more) => (ms += more))]);
  const running: Stepping = { ...stepping, sandboxes: Object.fromEntries(clocked) as TaskSandboxes };
  const { state, messages, done, reward, metrics } = await answer(running, turn);
  const digest = sandbox && !done && (await workspaceDigest(sandbox, `${attemptKey(attempt)}/${turn}/digest`));
  // A step is run again like a call.
  const replayMs = sandbox === undefined ? 0 : await replayMsOf(turn, ms, attempt, place.store);
  return place.store.putOnce<ActRecord>(keys.act(attempt, turn), {
    messages,
    state,
    ...(replayMs > 0 && { replayMs }),
    ...(done && { done }),
    ...(reward !== undefined && { reward }),
    ...(metrics && { metrics }),
    ...(sandbox && { sandbox: sandbox.id }),
    ...(digest && { digest }),
  });
}

/** Runs a recorded step again, in the sandbox that replaces a lost one; its record stays. */
export async function repeatStep(stepping: Stepping, turn: number): Promise<void> {
  await answer(stepping, turn);
}
