/** A task folder as a task: what the agent reads, where it acts, how its work is verified, and what solves it. */

import { UserInputError } from '../../protocol/user-input-error.ts';
import type { Message } from '../../protocol/message.ts';
import type { McpServers } from '../../agents/mcp/server.ts';
import { hasSandbox, type Task } from '../environment.ts';
import type { HarborOptions } from './environment.ts';
import { machineOf, resourcesOf, verifierMachine } from './machine.ts';
import { oracleOf } from './oracle.ts';
import { isSeparate, type TaskFolder } from './read-task.ts';
import { verdictOf } from './rewards.ts';
import { collectArtifacts, verifierSandbox, whyNoArtifacts } from './separate.ts';
import { firstInstruction, gradeSteps, nextStep, startSteps, type StepsOptions } from './steps.ts';
import { filledAll } from './templates.ts';
import { untilHealthy, verify } from './verify.ts';

/** Of a grading beside the verifiers themselves, in seconds: uploads and the end of processes. */
const AROUND_SECONDS = 600;
const LIMITS = { memoryMiB: 2048, diskMiB: 512, processes: 512 };

/** Servers that run in the sandbox by a command. Others are named to the agent, which may reach them itself. */
function serversOf({ toml }: TaskFolder): { readonly mcp: McpServers; readonly notes: string[] } {
  const mcp: Record<string, McpServers[string]> = {};
  const notes: string[] = [];
  for (const { name, transport, url, command, args } of toml.environment.mcp_servers) {
    if (command !== undefined) mcp[name] = { command: [command, ...args] };
    else notes.push(`The MCP server ${name} is at ${url ?? 'an unknown address'} (${transport}).`);
  }
  return { mcp, notes };
}

function instructionOf(task: TaskFolder, serverNotes: readonly string[]): string {
  const { skills_dir: skills } = task.toml.environment;
  const notes = [
    ...serverNotes,
    ...(skills === undefined ? [] : [`Skills are in ${skills}: each folder has a SKILL.md.`]),
  ];
  const instruction = task.isMultiStep ? firstInstruction(task) : task.steps[0].instruction;
  return [instruction, ...(notes.length > 0 ? [notes.join('\n')] : [])].join('\n\n');
}

export function taskOf(task: TaskFolder, options: HarborOptions): Task {
  const machine = machineOf(task, options);
  const { workdir, sandboxes } = machine;
  const { toml, isMultiStep, steps } = task;
  const keeps = options.processes === 'keep';
  const { mcp, notes } = serversOf(task);
  const separate = isSeparate(toml.verifier);
  const { healthcheck } = toml.environment;
  const stepsOptions: StepsOptions = { env: options.env, workdir, keeps, rewardKey: options.rewardKey };
  const [{ verifier }] = steps;
  // A missing value is said when the task is loaded, not when its work is graded.
  const env = filledAll(verifier.env, options.env, `${task.name}: verifier.env`);
  if (isMultiStep && options.tools.includes('finish'))
    throw new UserInputError(
      'tools',
      options.tools,
      `leave finish out: ${task.name} has steps, and a message ends each`,
    );
  const tools = isMultiStep || options.tools.includes('finish') ? options.tools : [...options.tools, 'finish'];
  const base = {
    family: toml.task?.name ?? task.name,
    messages: [{ role: 'user', content: instructionOf(task, notes) }] as readonly Message[],
    tools,
    ...(Object.keys(mcp).length > 0 && { mcp }),
    sandboxes,
    resources: {
      ...resourcesOf(toml, options),
      gradeSeconds: Math.max(...steps.map((step) => step.verifier.seconds)) + AROUND_SECONDS,
    },
    ...(steps[0].solution && { oracle: async () => await Promise.resolve(oracleOf(task, options.env, workdir)) }),
  };
  if (!hasSandbox(base)) throw new TypeError(`${task.name} has no sandbox`);
  if (isMultiStep)
    return {
      ...base,
      agent: { type: 'tools', options: { message: 'step' } },
      gradedIn: 'agents',
      start: async (ctx) => {
        await mustBeHealthy(ctx, healthcheck);
        return { state: (await startSteps(task, ctx, stepsOptions)).state };
      },
      step: async (ctx, state) => await nextStep(task, ctx, state, stepsOptions),
      grade: async (ctx, { state }) => await gradeSteps(task, ctx, state, stepsOptions),
    };
  const start = {
    ...(healthcheck && {
      start: async (ctx: Parameters<NonNullable<Task['start']>>[0]) => {
        await mustBeHealthy(ctx, healthcheck);
        return { state: {} };
      },
    }),
  };
  if (!separate)
    return {
      ...base,
      ...start,
      gradedIn: 'agents',
      async grade(ctx) {
        const sandbox = await ctx.sandbox();
        const verified = await verify({ sandbox, verifier, env, id: `${ctx.id}/verify`, keeps });
        return verdictOf(verified, options.rewardKey);
      },
    };
  return {
    ...base,
    ...start,
    gradedIn: 'fresh',
    collect: async (ctx) => await collectArtifacts(task, ctx, keeps),
    async grade(ctx, { artifact }) {
      const why = whyNoArtifacts(artifact);
      if (why !== undefined) return { code: 'graded', reward: 0, passed: false, reason: why };
      const sandbox = await verifierSandbox(ctx, verifierMachine(task, options), LIMITS, artifact);
      const verified = await verify({ sandbox, verifier, env, id: `${ctx.id}/verify`, keeps: false });
      return verdictOf(verified, options.rewardKey);
    },
  };
}

async function mustBeHealthy(
  ctx: Parameters<NonNullable<Task['start']>>[0],
  check: TaskFolder['toml']['environment']['healthcheck'],
): Promise<void> {
  const why = check === undefined ? undefined : await untilHealthy(await ctx.sandbox(), check, `${ctx.id}/health`);
  if (why !== undefined) throw new Error(why);
}
