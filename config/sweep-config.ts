/** The sweep configuration's schema: every field, its default and its bounds. Unknown fields are refused by name. */

import { isAbsolute, resolve } from 'node:path';
import { z } from 'zod';
import { messageWithPlace } from '../modules/own-frame.ts';
import { MOST_ROLLOUTS } from '../protocol/limits.ts';
import type { AskedTasks, SettledSweep, SweepConfig, SweepSampling, TaskSelection } from '../protocol/eval.ts';
import type { Budget } from '../protocol/budget.ts';
import type { Judges } from '../protocol/judge.ts';
import { UserInputError } from '../protocol/user-input-error.ts';
import { taskKey, type TaskSource } from '../protocol/task-key.ts';
import type { ObjectRef } from '../protocol/stages.ts';
import type { Dataset } from '../tasks/environment.ts';
import type { TaskLoader } from '../tasks/task-loader.ts';
import { checkLoaded, checkPool, EVALUATED, heldOutSplit, openEntry, sizeOf } from './open-tasks.ts';
import { budgetSchema, checkDeclaredJudges, checkPriced, judgesIn, judgesSchema } from './judges-schema.ts';
import { modulesSchema, resolveModules, splitSchema } from './tasks-schema.ts';
import { agentSchema, checkCodec, dispatcherSchema, parseSettings, samplingSchema } from './run-config.ts';
import { checkWrittenPolicies, part, policySchema, resolveWritten } from './sweep-policies.ts';

const count = z.int().min(1);
/** A schedule appends the time that it fired at: `NAME-2026-01-31T06:00:00Z`. */
export const EVAL_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,149}$/;

const tasksSchema = z.union(
  [
    z.strictObject({
      name: z.string().min(1),
      options: z.record(z.string(), z.json()).default({}),
      folder: z.string().startsWith('/').optional(),
      split: splitSchema.optional(),
      from: z.int().min(0).default(0),
      count: count.max(MOST_ROLLOUTS).optional(),
    }),
    z.strictObject({ ids: z.array(z.string().min(1)).min(1) }),
  ],
  'give { name, split, from, count } or { ids: [...] }',
);

const sweepSampling = samplingSchema.extend({ name: part.optional(), samples: count.optional() });

export const sweepConfigSchema = z.strictObject({
  eval: z
    .string()
    .regex(EVAL_ID, 'give letters, digits, dot, colon, dash and underscore, at most 150')
    .default('default'),
  dir: z.string().default('evals'),
  seed: z.int().min(0).default(1),
  modules: modulesSchema,
  tasks: tasksSchema,
  policies: z.array(policySchema).min(1),
  sampling: z.array(sweepSampling).min(1).prefault([{}]),
  samples: count.default(1),
  passAt: z.array(count).min(1).default([1]),
  judges: judgesSchema,
  budget: budgetSchema,
  agent: agentSchema.prefault({}),
  dispatcher: dispatcherSchema.prefault({}),
  maxFailed: z.number().min(0).max(1).default(0.1),
  bootstrap: z
    .strictObject({
      resamples: z.int().min(100).max(100_000).default(2000),
      confidence: z.number().gt(0).lt(1).default(0.95),
    })
    .prefault({}),
});

/** Relative paths in options start at `from`. */
function withFolder(tasks: z.output<typeof tasksSchema>, start: string): AskedTasks {
  if ('ids' in tasks) return tasks;
  const { folder = start, name, options, split, from, count: most } = tasks;
  return {
    name,
    options,
    ...(Object.keys(options).length > 0 && { folder }),
    ...(split !== undefined && { split }),
    from,
    ...(most !== undefined && { count: most }),
  };
}

/** A sweep's configuration as it is written, defaults left out. */
export type EvalSettings = z.input<typeof sweepConfigSchema>;

function refuseTwins(
  field: string,
  names: readonly string[],
  remedy = 'give each one a different name: { name: …, … }',
): void {
  const twin = names.find((name, i) => names.indexOf(name) !== i);
  if (twin !== undefined) throw new UserInputError(field, twin, remedy);
}

/** Greedy rollouts of a task are all equal: one sample is the default. */
function samplingsOf({ sampling, samples }: z.infer<typeof sweepConfigSchema>): SweepSampling[] {
  const samplings = sampling.map((one) => ({
    ...one,
    name: one.name ?? (one.temperature === 0 ? 'greedy' : `t${one.temperature}`),
    samples: one.samples ?? (one.temperature === 0 ? 1 : samples),
  }));
  refuseTwins(
    'sampling',
    samplings.map(({ name }) => name),
  );
  return samplings;
}

/** The ids of the tasks, in their order. */
export function taskIdsOf(tasks: TaskSelection): readonly string[] {
  if ('ids' in tasks) return tasks.ids;
  const { name, split, from } = tasks;
  return Array.from({ length: tasks.count }, (_, i) => taskKey(name, split, from + i));
}

/**
 * A split that is left out is the first of held-out, test and validation that has tasks; a count, as many as there are,
 * up to 200. Errors: `UserInputError` if there is no such split, or no task from `from` on.
 */
export function settledRange(
  { split: asked, from, count: most }: { readonly split?: string; readonly from: number; readonly count?: number },
  dataset: Dataset,
  name: string,
): { readonly split: string; readonly from: number; readonly count: number } {
  const split = heldOutSplit(dataset, asked, 'tasks.split', name);
  const size = sizeOf(dataset, split, 'tasks.split', name);
  if (most !== undefined) return { split, from, count: most };
  if (size === 0) throw new UserInputError('tasks.split', split, `give another one: ${name} has 0 ${split} tasks`);
  if (from >= size)
    throw new UserInputError('tasks.from', from, `give less than ${size}: ${name} has ${size} ${split} tasks`);
  return { split, from, count: Math.min(EVALUATED, size - from) };
}

/** What an eval's tasks are in the data. */
export interface SweepTasks {
  readonly tasks: TaskSelection;
  /** Absent for tasks by their keys without modules. */
  readonly sources?: Readonly<Record<string, TaskSource>>;
}

/**
 * `modules`: digest of the eval's modules, imported. `begun`: the sources of an eval that has started before. Errors:
 * `DataUnavailable` for records on a hub; `UserInputError` for an unknown task or split, and for more tasks than there
 * are.
 */
export async function checkTasks(
  tasks: AskedTasks,
  loader: TaskLoader,
  modules?: ObjectRef,
  judges?: Judges,
  begun: Readonly<Record<string, TaskSource>> = {},
): Promise<SweepTasks> {
  if (!('ids' in tasks)) {
    const { name } = tasks;
    const asked = { ...tasks, environment: name };
    const { source, dataset } = await openEntry(
      asked,
      { name: 'tasks.name', options: 'tasks.options' },
      loader,
      modules,
      begun[name],
    );
    checkDeclaredJudges([asked], judges, modules);
    const settled = { ...tasks, ...settledRange(tasks, dataset, name) };
    await checkPool(dataset, { ...settled, source: name }, { name: 'tasks.name', count: 'tasks.count' }, modules);
    return { tasks: settled, sources: { [name]: source } };
  }
  const sources: Record<string, TaskSource> = {};
  for (const id of tasks.ids) {
    try {
      const { task, source } = await loader.load({ task: id, ...(modules && { modules }) });
      checkLoaded(id, task, modules);
      sources[source] = { environment: source, options: {} };
    } catch (error) {
      throw new UserInputError('tasks.ids', id, `give known tasks (${messageWithPlace(error)})`, { cause: error });
    }
  }
  checkDeclaredJudges(Object.values(sources), judges, modules);
  return { tasks, ...(modules !== undefined && { sources }) };
}

/** `config` with what it leaves out of its tasks as the eval has it that has started under its name. */
export function asBegun(config: SweepConfig, { tasks: begun }: SettledSweep): SettledSweep {
  const { tasks } = config;
  if ('ids' in tasks) return { ...config, tasks };
  const known = 'ids' in begun ? { split: '', count: 0 } : begun;
  return { ...config, tasks: { ...tasks, split: tasks.split ?? known.split, count: tasks.count ?? known.count } };
}

/**
 * Fills in the defaults. Relative paths start at `cwd`, those of modules and tasks at the configuration's `folder`.
 * Errors: `UserInputError` for the first invalid field.
 */
export function resolveSweepConfig(given: unknown, cwd: string, folder = cwd): SweepConfig {
  checkWrittenPolicies(given, cwd);
  const judged = judgesIn(given);
  const parsed = parseSettings(sweepConfigSchema, given);
  const sampling = samplingsOf(parsed);
  const most = Math.max(...sampling.map(({ samples }) => samples));
  const beyond = parsed.passAt.find((k) => k > most);
  if (beyond !== undefined) throw new UserInputError('passAt', beyond, `give at most samples (${most})`);
  const tasks = 'ids' in parsed.tasks ? parsed.tasks.ids.length : (parsed.tasks.count ?? EVALUATED);
  if (tasks * most > MOST_ROLLOUTS)
    throw new UserInputError(
      'samples',
      most,
      `give less: a policy under one sampling setting may have ${MOST_ROLLOUTS} rollouts at most, ` +
        `and there are ${tasks} tasks`,
    );
  if ('ids' in parsed.tasks)
    refuseTwins('tasks.ids', parsed.tasks.ids, 'name each task once (samples sets how often each is rolled out)');
  const { samples: _samples, policies: written, dir, passAt, modules, ...rest } = parsed;
  const policies = written.map((one, i) => resolveWritten(one, i, cwd));
  if (!policies.every((policy) => 'endpoint' in policy)) checkCodec(parsed.agent);
  refuseTwins(
    'policies',
    policies.map(({ name }) => name),
  );
  checkPriced(rest.budget as Budget | undefined, [
    ...Object.values(judged.judges ?? {}).map(({ endpoint }) => endpoint),
    ...policies.flatMap((one) => ('endpoint' in one ? [one.endpoint] : [])),
  ]);
  return {
    ...rest,
    ...judged,
    ...resolveModules(modules, folder),
    tasks: withFolder(parsed.tasks, folder),
    dir: isAbsolute(dir) ? dir : resolve(cwd, dir),
    policies,
    sampling,
    passAt: [...new Set(passAt)].sort((a, b) => a - b),
  } as SweepConfig;
}
