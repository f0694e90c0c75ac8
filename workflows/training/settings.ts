/** The settings of training's modes: defaults, and refusal of settings that the chosen mode does not read. Pure. */

import type { RefusedSetting } from '../batch/dispatch-schedule.ts';
import type { TrainingSettings } from '../../protocol/run-config.ts';
import { MOST_GROUPS_OF_A_HISTORY } from '../../protocol/limits.ts';

/** As SkyRL's `max_staleness_steps`. */
const MAX_STALENESS_STEPS = 4;

type Given = { readonly [K in keyof TrainingSettings]?: TrainingSettings[K] | undefined } & Pick<
  TrainingSettings,
  'mode'
>;

/** Settings that apply in every mode: they say how an update is made, not when. */
const ALWAYS = ['mode', 'shards', 'placement'] as const;

const TAKES: Readonly<Record<TrainingSettings['mode'], ReadonlyArray<keyof TrainingSettings>>> = {
  sync: ALWAYS,
  'one-step-off': [...ALWAYS, 'rolloutVersion', 'maskStalenessSteps'],
  async: [...ALWAYS, 'maxStalenessSteps', 'rolloutVersion', 'maskStalenessSteps'],
};

/** Updates between a unit's start and the update that trains on it, at most. */
export function maxStalenessOf({ mode, maxStalenessSteps = MAX_STALENESS_STEPS }: Given): number {
  if (mode === 'async') return maxStalenessSteps;
  return mode === 'sync' ? 0 : 1;
}

/**
 * Groups that a step of an asynchronous run may have, at most. One history starts what a bound of `maxStaleness` allows
 * until the step's update ends, and then as many groups as the next step takes, before the run continues in a new one.
 */
export function mostGroupsOfStep(maxStaleness: number): number {
  return Math.floor(MOST_GROUPS_OF_A_HISTORY / (maxStaleness + 2));
}

/** The first setting without an effect; `undefined` if there is none. */
export function refusedTraining(settings: Given): RefusedSetting | undefined {
  const { mode, maskStalenessSteps: mask } = settings;
  for (const [field, value] of Object.entries(settings)) {
    if (value === undefined || (TAKES[mode] as readonly string[]).includes(field)) continue;
    const modes = Object.entries(TAKES).flatMap(([name, takes]) =>
      (takes as readonly string[]).includes(field) ? [name] : [],
    );
    return { field, value, remedy: `it has no effect in mode ${mode}: remove it, or choose ${modes.join(' or ')}` };
  }
  const bound = maxStalenessOf(settings);
  if (mask === undefined || mask < bound) return undefined;
  const remedy = `nothing is ever trained on more than ${bound} steps late: give less than that, or leave it out`;
  return { field: 'maskStalenessSteps', value: mask, remedy };
}

/** Fills in defaults. One shard and the placement `colocated` are the defaults, and are left out. */
export function resolveTraining({
  mode,
  maxStalenessSteps,
  rolloutVersion,
  maskStalenessSteps,
  shards = 1,
  placement,
}: Given): TrainingSettings {
  const updates = { ...(shards > 1 ? { shards } : {}), ...(placement === 'disaggregated' ? { placement } : {}) };
  if (mode === 'sync') return { mode, ...updates };
  return {
    mode,
    ...updates,
    ...(mode === 'async' ? { maxStalenessSteps: maxStalenessSteps ?? MAX_STALENESS_STEPS } : {}),
    rolloutVersion: rolloutVersion ?? (mode === 'async' ? 'newest' : 'begin'),
    ...(maskStalenessSteps === undefined ? {} : { maskStalenessSteps }),
  };
}
