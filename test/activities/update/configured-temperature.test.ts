/** Hunts turns that are trained on at another temperature than they were sampled at. */
import { describe, expect, it } from 'vitest';
import { type GenerateRecord, keys, type RunRecord } from '../../../protocol/records.ts';
import { resolveRunConfig } from '../../../config/run-config.ts';
import { trainingDataOf } from '../../../activities/update/training-data.ts';
import type { ConfigChange } from '../../../protocol/run-config.ts';
import { algorithm, attemptOf, ended, RUN, useWorld } from '../world.ts';

const world = useWorld();

/** Rollout `k` of the task says a token each turn, at these temperatures; `undefined`: the record does not say. */
async function said(k: number, temperatures: ReadonlyArray<number | undefined>): Promise<void> {
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
      ...(temperature === undefined ? {} : { temperature }),
    });
  }
}

async function configured(temperature: number, ...changes: Array<Omit<ConfigChange, 'at'>>): Promise<void> {
  const { store, dir } = world.now;
  const config = resolveRunConfig({ task: { name: 'toy' }, policy: { base: '/base' }, sampling: { temperature } }, '/');
  await store.putOnce<RunRecord>(keys.run(RUN), {
    run: RUN,
    runDir: dir,
    seed: 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    policy: { base: '/base', parameters: 1, vocabulary: 1 },
    task: { name: 'toy', train: 2, heldOut: 1 },
    config,
  });
  for (const [i, change] of changes.entries())
    await store.putOnce(keys.changes(RUN, `${i}`), [{ at: '2026-01-01T00:00:00.000Z', ...change }]);
}

/** Of both rollouts, in step `step` of the run. */
async function temperaturesAt(step: number) {
  const { data } = await trainingDataOf(
    { run: RUN, step, batch: `train/${RUN}/step-1`, tasks: [attemptOf(0).task], samples: 2, algorithm },
    world.now.store,
  );
  return data.map(({ temperatures }) => temperatures);
}

describe('what an update is told of temperatures', () => {
  it('is what each turn was sampled at, also where that changed within a rollout; nothing where it is 1', async () => {
    await said(0, [0.6, 1.7, 0]);
    await said(1, [1, 1]);
    await configured(0.3);
    expect(await temperaturesAt(1)).toEqual([[1, 0.6, 1, 1.7, 1, 0], undefined]);
  });

  it('is, of records that do not say it, what the run was configured with when the step began', async () => {
    await said(0, [undefined, 0.9]);
    await said(1, [undefined]);
    const field = 'sampling.temperature';
    await configured(
      0.6,
      { step: 1, field, from: 0.6, to: 0.8 },
      { step: 2, field: 'algorithm.learningRate', from: 1e-4, to: 1e-3 },
      { step: 3, field, from: 0.8, to: 1 },
    );
    expect(await temperaturesAt(1)).toEqual([
      [1, 0.6, 1, 0.9],
      [1, 0.6],
    ]);
    expect(await temperaturesAt(2)).toEqual([
      [1, 0.8, 1, 0.9],
      [1, 0.8],
    ]);
    expect(await temperaturesAt(3)).toEqual([
      [1, 0.8, 1, 0.9],
      [1, 0.8],
    ]);
    expect(await temperaturesAt(4)).toEqual([[1, 1, 1, 0.9], undefined]);
  });

  it('is 1 where no record says anything', async () => {
    await said(0, [undefined]);
    await said(1, [0.6]);
    expect(await temperaturesAt(1)).toEqual([undefined, [1, 0.6]]);
  });
});
