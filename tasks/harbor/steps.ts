/**
 * A task of several steps in one sandbox: a message without a call ends a step, which is then verified in place. The
 * tests of a step are there only while they run.
 */

import { posix } from 'node:path';
import { z } from 'zod';
import type { Message } from '../../protocol/message.ts';
import type { Verdict } from '../../protocol/stages.ts';
import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { StepResult, TaskContext } from '../environment.ts';
import { filesIn, isFile } from './folder.ts';
import type { Step, TaskFolder } from './read-task.ts';
import { belowMin, type Rewards, rewardsOfSteps, verdictOf } from './rewards.ts';
import { filledAll, type Variables } from './templates.ts';
import { Calls, clearTests, untilHealthy, verify } from './verify.ts';

const SETUP_MS = 600_000;

const state = z.object({
  /** Rewards of the steps so far, in order; `null` for one that could not begin. */
  steps: z.array(z.record(z.string(), z.number()).nullable()),
  /** Why there are no further steps. */
  ended: z.string().optional(),
});
export type StepsState = z.output<typeof state>;

export interface StepsOptions {
  readonly env: Variables;
  readonly workdir: string;
  readonly keeps: boolean;
  readonly rewardKey: string;
}

/** How a step's instruction reads. Upstream, each step is a conversation of its own. */
function instructionOf({ steps }: TaskFolder, index: number): string {
  const step = steps[index];
  const head = `Step ${index + 1} of ${steps.length}. When it is done, say so in a message without a call.`;
  return `${head}\n\n${step?.instruction ?? ''}`;
}

/** Makes the working folder ready for a step. Returns why the step cannot begin. */
async function prepared(
  step: Step,
  sandbox: Sandbox,
  id: string,
  { workdir }: StepsOptions,
): Promise<string | undefined> {
  const calls = new Calls(sandbox, `${id}/prepare`);
  if (step.workdir !== undefined) {
    const failed = await calls.upload(filesIn(step.workdir), workdir);
    if (failed !== undefined) return `the files of step ${step.name} cannot be written: ${failed}`;
    if (isFile(posix.join(step.workdir, 'setup.sh'))) {
      const { exitCode, output } = await calls.exec('bash ./setup.sh', SETUP_MS, false, 4000);
      if (exitCode !== 0)
        return `setup.sh of step ${step.name} ended with ${exitCode ?? 'a signal'}: ${output.slice(-300)}`;
    }
  }
  return step.healthcheck === undefined ? undefined : await untilHealthy(sandbox, step.healthcheck, `${id}/health`);
}

/** Makes the first step ready. Errors: `Error` if it cannot begin: the agent has done nothing yet. */
export async function startSteps(
  task: TaskFolder,
  ctx: TaskContext,
  options: StepsOptions,
): Promise<{ state: StepsState; messages: Message[] }> {
  const failed = await prepared(task.steps[0], await ctx.sandbox(), ctx.id, options);
  if (failed !== undefined) throw new Error(failed);
  return { state: { steps: [] }, messages: [] };
}

export const firstInstruction = (task: TaskFolder): string => instructionOf(task, 0);

async function verified(
  task: TaskFolder,
  index: number,
  ctx: TaskContext,
  options: StepsOptions,
): Promise<{ rewards: Rewards; reason: string }> {
  const step = task.steps[index];
  if (step === undefined) throw new TypeError(`${task.name} has no step ${index}`);
  const env = filledAll(step.verifier.env, options.env, `${task.name}: verifier.env`);
  const sandbox = await ctx.sandbox();
  return await verify({ sandbox, verifier: step.verifier, env, id: `${ctx.id}/verify-${index}`, keeps: options.keeps });
}

/** Verifies the step that ends, and makes the next one ready. */
export async function nextStep(
  task: TaskFolder,
  ctx: TaskContext,
  given: unknown,
  options: StepsOptions,
): Promise<StepResult> {
  const before = state.parse(given);
  const index = before.steps.length;
  const step = task.steps[index];
  if (step === undefined || before.ended !== undefined) return { state: before, messages: [], done: true };
  const { rewards, reason } = await verified(task, index, ctx, options);
  const steps = [...before.steps, rewards];
  const low = belowMin(rewards, step.minReward);
  if (low !== undefined)
    return { state: { steps, ended: `step ${step.name}: ${low} (${reason})` }, messages: [], done: true };
  const next = task.steps[index + 1];
  if (next === undefined) return { state: { steps, ended: 'all steps are done' }, messages: [], done: true };
  const sandbox = await ctx.sandbox();
  await clearTests(sandbox, `${ctx.id}/clear`, options.keeps);
  const failed = await prepared(next, sandbox, ctx.id, options);
  if (failed !== undefined) return { state: { steps: [...steps, null], ended: failed }, messages: [], done: true };
  return { state: { steps }, messages: [{ role: 'user', content: instructionOf(task, index + 1) }] };
}

/** The verdict on all steps. A step in which the agent was stopped is verified as it stands. */
export async function gradeSteps(
  task: TaskFolder,
  ctx: TaskContext,
  given: unknown,
  options: StepsOptions,
): Promise<Verdict> {
  const { steps, ended } = state.parse(given ?? { steps: [] });
  let [all, reason] = [steps as Array<Rewards | null>, ended ?? ''];
  if (ended === undefined && steps.length < task.steps.length) {
    const last = await verified(task, steps.length, ctx, options);
    [all, reason] = [[...steps, last.rewards], `stopped in step ${steps.length + 1}: ${last.reason}`];
  }
  const rewards = rewardsOfSteps(all, task.toml.multi_step_reward_strategy);
  const scores = all.map((one) => (one === null ? 'none' : (one[options.rewardKey] ?? JSON.stringify(one))));
  return verdictOf(
    { rewards, reason: `steps ${scores.join(', ')} of ${task.steps.length}; ${reason}` },
    options.rewardKey,
  );
}
