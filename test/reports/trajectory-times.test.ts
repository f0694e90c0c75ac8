/** Hunts times that count given-up rollouts, or a rollout twice. */

import { expect, it } from 'vitest';
import { TrajectoryTimes } from '../../reports/trajectory-times.ts';
import type { RolloutEventName } from '../../store/store.ts';

function timesOf(
  events: ReadonlyArray<readonly [rollout: string, event: RolloutEventName, second: number, attempt?: number]>,
): TrajectoryTimes {
  const times = new TrajectoryTimes();
  for (const [rollout, event, second, attempt = 1] of events)
    times.add({
      run: 'r',
      rollout: `train/r/${rollout}`,
      attempt,
      event,
      at: new Date(1e12 + second * 1000).toISOString(),
    });
  return times;
}

it('a rollout takes from its sandbox to its reward, a group from its first sandbox to its last reward', () => {
  const times = timesOf([
    ['step-1/a/0', 'dispatched', 0],
    ['step-1/a/0', 'started', 1],
    ['step-1/a/1', 'started', 2],
    ['step-1/a/0', 'turn', 3],
    ['step-1/a/0', 'graded', 5],
    ['step-1/a/1', 'graded', 10],
    ['step-1/b/0', 'started', 4],
    ['step-1/b/0', 'graded', 6],
    ['step-2/a/0', 'started', 0],
    ['step-2/a/0', 'graded', 100],
  ]);
  expect(times.metrics(['step-1'])).toEqual({
    'generate/trajectory_time_completion_mean': 14 / 3,
    'generate/trajectory_time_completion_p90': 7.2,
    'generate/trajectory_time_completion_max': 8,
    'generate/group_completion_time_mean': 5.5,
    'generate/group_completion_time_p90': 8.3,
    'generate/group_completion_time_max': 9,
    'generate/intra_group_completion_time_std_mean': 2,
    'generate/intra_group_completion_time_cv_mean': 1 / 3,
  });
  expect(times.metrics(['step-1', 'step-2'])).toMatchObject({ 'generate/trajectory_time_completion_max': 100 });
  expect(times.metrics(['step-3'])).toEqual({});
});

it('counts the attempt that was graded, and nothing after the end', () => {
  const times = timesOf([
    ['step-1/a/0', 'started', 0],
    ['step-1/a/0', 'started', 50, 2],
    ['step-1/a/0', 'graded', 53, 2],
    ['step-1/a/0', 'trained', 60],
    ['step-1/a/0', 'graded', 70],
    ['step-1/a/1', 'started', 0],
    ['step-1/a/1', 'masked', 20],
    ['step-1/a/1', 'graded', 90],
  ]);
  expect(times.metrics(['step-1'])).toMatchObject({
    'generate/trajectory_time_completion_mean': 3,
    'generate/group_completion_time_max': 3,
  });
});
