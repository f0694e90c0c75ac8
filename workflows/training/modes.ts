/**
 * What the modes of training mean for the staleness gate: units of rollouts, how many a step takes, and their bounds.
 * Pure.
 */

import type { PolicyRef } from '../../protocol/policy.ts';
import type { OpenedConfig, TrainingSettings } from '../../protocol/run-config.ts';
import { MOST_GROUPS_AT_ONCE } from '../../protocol/limits.ts';
import { maxStalenessOf } from './settings.ts';
import type { StalenessLimits } from './overlap/staleness-gate.ts';
import type { Unit } from '../../protocol/admission.ts';
import { type Drawn, tasksOfGroup, tasksOfStep } from './step-tasks.ts';

export function modeOf({ training }: OpenedConfig): TrainingSettings['mode'] {
  return training?.mode ?? 'sync';
}

/** Units that a step trains on: groups in mode `async`; otherwise the step's batch is the one unit. */
export function unitsPerStep(config: OpenedConfig): number {
  return modeOf(config) === 'async' ? config.batch.tasks : 1;
}

/** Groups that fit into the dispatcher's width; no limit if it has none. */
function parallelOf({ batch, dispatcher }: OpenedConfig): number {
  const { maxParallelAgents: width } = dispatcher;
  return dispatcher.type === 'batch' || width === undefined
    ? Number.POSITIVE_INFINITY
    : Math.max(1, Math.floor(width / batch.samples));
}

export function limitsOf(config: OpenedConfig): StalenessLimits {
  const parallel = modeOf(config) === 'async' ? Math.min(parallelOf(config), MOST_GROUPS_AT_ONCE) : 1;
  return { steps: config.steps, maxStaleness: maxStalenessOf(config.training ?? { mode: 'sync' }), parallel };
}

export function drawnBy(config: OpenedConfig, number: number): Drawn {
  return modeOf(config) === 'async' ? tasksOfGroup(config, number) : tasksOfStep(config, number);
}

/** The policy that a unit's rollouts sample with. */
export function policyOf({ run, training }: OpenedConfig, { policy }: Unit): PolicyRef {
  return training?.rolloutVersion === 'newest' ? { ...policy, newestOf: run } : policy;
}
