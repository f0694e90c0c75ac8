/** Hunts turns that are trained on at another temperature than they were sampled at. */
import { describe, expect, it } from 'vitest';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { trainingDataOf } from '../../../activities/update/training-data.ts';
import { algorithm, attemptOf, ended, putManifest, useWorld } from '../world.ts';

const world = useWorld();

/** Rollout `k` of the task samples one token each turn, at these temperatures. */
async function said(k: number, temperatures: readonly number[]): Promise<void> {
  await ended(world.now.store, 0, k, k);
  for (const [i, temperature] of temperatures.entries()) {
    await world.now.store.putOnce<GenerateRecord>(keys.generate(attemptOf(0, k), i + 1), {
      version: 0,
      appended: [10],
      reset: false,
      sampled: [20],
      logprobs: [-1],
      end: 'stop',
      parsed: { kind: 'no-call', content: '' },
      temperature,
    });
  }
}

/** Of both rollouts. */
async function temperatures() {
  const batches = [await putManifest(world.now.store, [attemptOf(0).task])];
  const { data } = await trainingDataOf({ batches, samples: 2, algorithm }, world.now.store);
  return data.map((datum) => datum.temperatures);
}

describe('the temperatures that an update receives', () => {
  it('are those of each turn, also if they change within a rollout; absent if they are 1', async () => {
    await said(0, [0.6, 1.7, 0]);
    await said(1, [1, 1]);
    expect(await temperatures()).toEqual([[1, 0.6, 1, 1.7, 1, 0], undefined]);
  });
});
