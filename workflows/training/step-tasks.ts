/**
 * What a step rolls out, and which part of it belongs to a unit: functions of configuration and number alone, so that
 * the same tasks are drawn in every mode, and again after a restart.
 */

import { DEFAULT_BREAKER, type End } from '../../protocol/breaker.ts';
import { drawTasks } from './select-tasks.ts';
import { taskKey } from '../../protocol/task-key.ts';
import { type BatchInput, MIN_REPLACE_RATIO } from '../../protocol/batch.ts';
import type { PolicyRef } from '../../protocol/policy.ts';
import type { BatchSettings, OpenedConfig } from '../../protocol/run-config.ts';

/** Empty if groups are not drawn by need. */
type ByNeed = Pick<BatchInput, 'wanted' | 'replace'>;

/** Groups that a step may draw, and the rule by which it draws more than `tasks`. */
function groupsOf({
  tasks,
  dynamicSampling: { type, maxSampleBatches, minReplaceRatio = MIN_REPLACE_RATIO },
}: BatchSettings): { readonly candidates: number; readonly byNeed: ByNeed } {
  if (type === 'none') return { candidates: tasks, byNeed: {} };
  const byNeed = type === 'filter' ? { wanted: tasks } : { replace: { groups: tasks, minReplaceRatio } };
  return { candidates: tasks * maxSampleBatches, byNeed };
}

/** The fields of a batch's input that its update needs too. */
export const byNeedOf = ({ wanted, replace }: ByNeed): ByNeed => ({
  ...(wanted === undefined ? {} : { wanted }),
  ...(replace && { replace }),
});

/** Groups of a batch that a step is meant to train on. */
export const aimOf = ({ tasks, wanted, replace }: Pick<BatchInput, 'tasks' | 'wanted' | 'replace'>): number =>
  wanted ?? replace?.groups ?? tasks.length;

/** Part of a batch's input: what is rolled out under which name. */
export type Drawn = Pick<BatchInput, 'name' | 'step' | 'tasks' | 'wanted' | 'replace'>;

export function tasksOfStep(config: OpenedConfig, step: number): Drawn {
  const { candidates, byNeed } = groupsOf(config.batch);
  const { train } = config.opened;
  const tasks = drawTasks(config.seed, step, train, candidates).map(({ pool, index }) => {
    const { source = '', split = '' } = train[pool] ?? {};
    return taskKey(source, split, index);
  });
  return { name: `step-${step}`, step, tasks, ...byNeed };
}

/** The held-out tasks of an evaluation, the same each time. */
export function heldOutTasks({ opened: { heldOut } }: OpenedConfig): string[] {
  return heldOut.flatMap(({ source, split, count }) =>
    Array.from({ length: count }, (_, index) => taskKey(source, split, index)),
  );
}

/**
 * A group by its number: first the groups of step 1, then those of step 2. A group that must vary has several tasks:
 * its own, and then every `batch.tasks`-th of the tasks that its step may draw.
 */
export function tasksOfGroup(config: OpenedConfig, number: number): Drawn {
  const perStep = config.batch.tasks;
  const place = (number - 1) % perStep;
  const { step, tasks, wanted } = tasksOfStep(config, Math.floor((number - 1) / perStep) + 1);
  const own = tasks.filter((_, i) => i % perStep === place);
  return { name: `group-${number}`, step, tasks: own, ...(wanted === undefined ? {} : { wanted: 1 }) };
}

/**
 * The input of a batch that samples with `policy`; its step is part of the noise key.
 * `lately`: how the rollouts before it ended.
 */
export function batchInput(config: OpenedConfig, drawn: Drawn, policy: PolicyRef, lately: readonly End[]): BatchInput {
  const { run, agent, sampling, judges, seed, dispatcher, batch, engine, breaker = DEFAULT_BREAKER } = config;
  const { samples, stragglers } = batch;
  const input = {
    run,
    ...drawn,
    catalog: config.opened.catalog,
    samples,
    policy,
    agent,
    sampling,
    ...(judges === undefined ? {} : { judges }),
    seed,
    dispatcher,
    ...(engine?.sampling !== undefined && { engine: engine.sampling }),
    breaker,
    lately,
  };
  // A run's evaluations, of step 0, wait for every rollout: one that is given up would count as failed.
  return drawn.step > 0 && stragglers ? { ...input, stragglers } : input;
}
