/**
 * Steps from which nothing is learned, since all rollouts of each task had the same reward: how a step's record shows
 * it, and what to change in the run's configuration.
 */

import type { RunConfig } from '../protocol/run-config.ts';
import type { StepRecord } from '../protocol/step-record.ts';

type Judged = Pick<StepRecord, 'groupRewards'>;

/** True if the step had groups to compare, and none of them varied in reward. */
export const noGroupVaried = ({ groupRewards }: Judged): boolean =>
  groupRewards !== undefined && groupRewards.varied === 0 && groupRewards.alike > 0;

/** Settings that decide how much the rollouts of a task differ, as they are now. */
export interface VaryingSettings {
  readonly temperature: number;
  readonly samples: number;
  /** True if a step draws further tasks until enough groups vary. */
  readonly drawsMore: boolean;
}

interface Change {
  readonly field: string;
  readonly to: unknown;
}

/** `changes`: those of a live run, the earliest first. */
export function varyingSettings({ batch, sampling }: RunConfig, changes: readonly Change[]): VaryingSettings {
  const changed = changes.findLast(({ field }) => field === 'sampling.temperature');
  return {
    temperature: Number(changed?.to ?? sampling.temperature),
    samples: batch.samples,
    drawsMore: batch.dynamicSampling.type !== 'none',
  };
}

function aboutTasks(steps: readonly Pick<StepRecord, 'passRate'>[]): string {
  if (steps.every(({ passRate }) => passRate === 0))
    return (
      'no rollout passed: give easier tasks, a better first policy (`longhaul sft`), or a grader with rewards ' +
      'between 0 and 1'
    );
  if (steps.every(({ passRate }) => passRate === 1)) return 'every rollout passed: give harder tasks';
  return 'give tasks that the policy solves at times, or a grader with rewards between 0 and 1';
}

function aboutSampling({ temperature, samples, drawsMore }: VaryingSettings): string[] {
  return [
    temperature === 0
      ? 'sampling.temperature is 0, so all rollouts of a task are alike: set it to 1'
      : `raise sampling.temperature (now ${temperature}), so that the rollouts of a task differ more`,
    `raise batch.samples (now ${samples}), the rollouts of each task`,
    ...(drawsMore
      ? []
      : ['set batch.dynamicSampling: { type: filter }, which draws further tasks until enough groups vary']),
  ];
}

/** What to change, the likeliest first. `steps`: those in which no group varied. */
export function adviceFor(
  steps: readonly Pick<StepRecord, 'passRate'>[],
  settings: VaryingSettings | undefined,
): readonly string[] {
  const sampling = settings === undefined ? [] : aboutSampling(settings);
  return settings?.temperature === 0 ? [...sampling, aboutTasks(steps)] : [aboutTasks(steps), ...sampling];
}
