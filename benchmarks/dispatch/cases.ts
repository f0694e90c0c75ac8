/** The cases of `bench dispatch`: the times of each rollout's stages, and the widths. Each case has its own unit. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { z } from 'zod';
import { SANDBOXES_PER_RUN } from '../../workflows/batch/dispatch-schedule.ts';
import type { Stage } from '../../protocol/rollout.ts';
import { UserInputError } from '../../client/errors.ts';

const seconds = z.number().min(0);
const count = z.int().min(1);

const caseSchema = z.object({
  name: z.string().regex(/^[A-Za-z0-9._-]+$/, 'give letters, digits, dot, dash and underscore'),
  num_instances: count,
  num_trajectories: count,
  max_parallel_agents: count,
  max_eval_parallel_agents: count,
  /** By instance and trajectory: init, run, eval. */
  stage_times: z.array(z.array(z.tuple([seconds, seconds, seconds])).min(1)).min(1),
});

const fileSchema = z.object({ cases: z.array(caseSchema).min(1) });

export interface DispatchCase {
  readonly name: string;
  readonly tasks: number;
  readonly samples: number;
  readonly maxParallelAgents: number;
  readonly maxEvalParallelAgents: number;
  /** By rollout; rollouts are numbered task by task. */
  readonly times: ReadonlyArray<Readonly<Record<Stage, number>>>;
}

/** The cases of this package. */
export const CASES_FILE = join(packageRoot, 'test', 'vectors', 'dispatch.json');

/** A case from names, widths and stage times in SkyRL-Agent's terms; also for a user's own cases. */
export function dispatchCase(given: z.infer<typeof caseSchema>): DispatchCase {
  return {
    name: given.name,
    tasks: given.num_instances,
    samples: given.num_trajectories,
    maxParallelAgents: given.max_parallel_agents,
    maxEvalParallelAgents: given.max_eval_parallel_agents,
    times: given.stage_times.flat().map(([init, run, reward]) => ({ init, 'agent-run': run, reward })),
  };
}

/** Errors: `UserInputError` for a file that cannot be read as cases. */
export function readCases(path: string): DispatchCase[] {
  let parsed;
  try {
    parsed = fileSchema.safeParse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    throw new UserInputError(
      '--cases',
      path,
      `give a JSON file with cases: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new UserInputError(
      '--cases',
      path,
      `at ${issue?.path.join('.') ?? 'the top'}: ${issue?.message ?? 'not a list of cases'}`,
    );
  }
  const cases = parsed.data.cases.map(dispatchCase);
  const uneven = cases.find(({ times, tasks, samples }) => times.length !== tasks * samples);
  if (uneven)
    throw new UserInputError(
      '--cases',
      path,
      `${uneven.name} has ${uneven.times.length} stage times, not instances × trajectories`,
    );
  return cases;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

/** The most live sandboxes that the pipeline may have. */
export function liveSandboxesCap({ maxParallelAgents }: DispatchCase): number {
  return SANDBOXES_PER_RUN * maxParallelAgents;
}

/** No schedule under the pipeline's caps is shorter: neither the work of any width nor the longest rollout fits. */
export function lowerBound(given: DispatchCase): number {
  const { times, maxParallelAgents, maxEvalParallelAgents } = given;
  const init = times.map((t) => t.init);
  const run = times.map((t) => t['agent-run']);
  const reward = times.map((t) => t.reward);
  const whole = times.map((t) => t.init + t['agent-run'] + t.reward);
  return Math.max(
    Math.max(...whole),
    sum(whole) / liveSandboxesCap(given),
    sum(run) / maxParallelAgents + Math.min(...init) + Math.min(...reward),
    sum(reward) / maxEvalParallelAgents + Math.min(...times.map((t) => t.init + t['agent-run'])),
  );
}
