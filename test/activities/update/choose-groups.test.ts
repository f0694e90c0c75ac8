/** Hunts groups that are trained on although they teach nothing, that are left out without a reason, or that count twice. */
import { describe, expect, it } from 'vitest';
import { keys } from '../../../protocol/record-keys.ts';
import { trainingDataOf } from '../../../activities/update/training-data.ts';
import type { Datum } from '../../../trainer/update-request.ts';
import { creditSamples } from '../../../trainer/training/advantages.ts';
import type { Sample } from '../../../trainer/training/sample.ts';
import type { AlgorithmSettings } from '../../../protocol/run-config.ts';
import { algorithm, attemptOf, ended, putManifest, useWorld } from '../world.ts';
import { stepsIn } from './steps.ts';

const world = useWorld();
const { said, prepare, fatesOf } = stepsIn(world);

it('drops groups that teach nothing, with the reason', async () => {
  const { store } = world.now;
  for (const k of [0, 1]) await ended(store, 0, k, 1);
  await ended(store, 1, 0, 1);
  await ended(store, 1, 1, 'sandbox-lost');
  expect(await fatesOf([0, 1], 2)).toEqual({
    'toy-train-0/0': 'dropped zero-variance',
    'toy-train-0/1': 'dropped zero-variance',
    'toy-train-1/0': 'dropped group-too-small',
    'toy-train-1/1': 'masked sandbox-lost',
  });
  expect(await prepare([0, 1], 2)).toMatchObject({ data: [], groups: 0, valid: 3 });
});

it('trains on the first groups that vary, and does not count those that were drawn beyond need', async () => {
  const { store } = world.now;
  const rewards = [
    [1, 0],
    [1, 1],
    [0, 1],
    [1, 0],
    [0, 'engine-lost'],
  ] as const;
  for (const [task, group] of rewards.entries())
    for (const [k, reward] of group.entries()) await ended(store, task, k, reward);
  const both = (task: number, fate: string) => ({ [`toy-train-${task}/0`]: fate, [`toy-train-${task}/1`]: fate });
  expect(await fatesOf([0, 1, 2, 3, 4], 2, 2)).toEqual({
    ...both(0, 'trained'),
    ...both(1, 'dropped zero-variance'),
    ...both(2, 'trained'),
    ...both(3, 'dropped surplus'),
    'toy-train-4/0': 'dropped surplus',
    'toy-train-4/1': 'masked engine-lost',
  });
  expect(await prepare([0, 1, 2, 3, 4], 2, 2)).toMatchObject({ groups: 2, valid: 6 });
  expect(await prepare([0, 1, 2, 3, 4], 2, 9)).toMatchObject({ groups: 3, valid: 9 });
});

it('trains on groups that do not vary if the filter is off, and on single rollouts if no group is compared', async () => {
  const { store } = world.now;
  for (const k of [0, 1]) await ended(store, 0, k, 1);
  await ended(store, 1, 0, 1);
  const told = async (settings: Partial<AlgorithmSettings>) =>
    [...(await prepare([0, 1], 1 + 1, undefined, settings)).fates.values()].map(({ event, reason }) =>
      `${event} ${reason}`.trim(),
    );
  expect(await told({ zeroVarianceFilter: false })).toEqual([
    'trained',
    'trained',
    'masked no-outcome',
    'dropped group-too-small',
  ]);
  expect(await told({ zeroVarianceFilter: false, advantage: 'reinforce++' })).toEqual([
    'trained',
    'trained',
    'masked no-outcome',
    'trained',
  ]);
});

describe('replacement', () => {
  const replace = { groups: 4, minReplaceRatio: 0.3 };
  const named = (tasks: readonly number[]) => tasks.map((task) => attemptOf(task).task);
  const drawn = async (count: number, settings: Partial<AlgorithmSettings> = {}, over: object = {}) =>
    trainingDataOf(
      {
        batches: [await putManifest(world.now.store, named(Array.from({ length: count }, (_, i) => i)))],
        samples: 2,
        algorithm: { ...algorithm, ...settings },
        replace,
        ...over,
      },
      world.now.store,
    );
  const groupsBy = async (rewards: ReadonlyArray<readonly (number | 'engine-lost')[]>) => {
    for (const [task, group] of rewards.entries()) {
      for (const [k, reward] of group.entries()) {
        await ended(world.now.store, task, k, reward);
        await said(task, k, [{ appended: [1], sampled: [10 * task + k + 2], logprobs: [-1] }]);
      }
    }
  };
  const firstTokens = (data: readonly Datum[]) => data.map(({ tokens }) => tokens[1]);
  const eventsOf = (fates: ReadonlyMap<string, { event: string; reason: string }>) =>
    [...fates].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { event, reason }]) => `${event} ${reason}`.trim());

  it('copies groups that vary into the place of those that do not, and counts every rollout once', async () => {
    await groupsBy([
      [1, 0],
      [1, 1],
      [0, 'engine-lost'],
      [0, 1],
    ]);
    const { data, fates, groups, valid, metrics, tokensByVersion } = await drawn(4);
    expect([...firstTokens(data.slice(0, 4))]).toEqual([2, 3, 32, 33]);
    // Two donors for two places: each once.
    expect(new Set(firstTokens(data.slice(4)))).toEqual(new Set([2, 3, 32, 33]));
    expect(data.length).toBe(8);
    expect([groups, valid, metrics['reward/num_replaced_groups']]).toEqual([2, 7, 2]);
    expect(Object.fromEntries(tokensByVersion)).toEqual({ 0: 4 });
    expect(eventsOf(fates)).toEqual([
      'trained',
      'trained',
      'dropped zero-variance',
      'dropped zero-variance',
      'dropped group-too-small',
      'masked engine-lost',
      'trained',
      'trained',
    ]);
    expect(await drawn(4)).toEqual(await drawn(4));
  });

  it("keeps a copy out of its original's baseline: both get the advantage that the group gives", async () => {
    await groupsBy([
      [1, 0],
      [1, 1],
      [0, 0],
      [1, 1],
    ]);
    const { data } = await drawn(4, {}, { replace: { groups: 4, minReplaceRatio: 0.2 } });
    expect(data.length).toBe(8);
    const samples = data.map((datum): Sample => ({
      datum,
      count: 1,
      recorded: Float64Array.of(-1),
      old: Float64Array.of(-1),
      reference: undefined,
    }));
    const advantages = creditSamples(samples, { ...algorithm, advantage: 'rloo' }).advantages.map((part) => part[0]);
    expect(advantages).toEqual([1, -1, 1, -1, 1, -1, 1, -1]);
    expect(new Set(data.map(({ credit }) => credit!.rollout)).size).toBe(8);
    expect(new Set(data.map(({ credit }) => credit!.group)).size).toBe(4);
  });

  it('leaves out every batch except the last, and copies nothing if that one has too few', async () => {
    await groupsBy([
      [1, 0],
      [1, 1],
      [0, 0],
      [0, 0],
      [1, 1],
      [1, 0],
      [1, 1],
      [0, 0],
    ]);
    const { data, fates, metrics } = await drawn(8);
    expect(firstTokens(data)).toEqual([52, 53]);
    expect(metrics['reward/num_replaced_groups']).toBe(0);
    const [resampled, alike] = ['dropped resampled', 'dropped zero-variance'];
    expect(eventsOf(fates)).toEqual([
      ...Array<string>(8).fill(resampled),
      alike,
      alike,
      'trained',
      'trained',
      ...Array<string>(4).fill(alike),
    ]);
  });

  it('draws another donor for other tasks, the same for the same ones under another run', async () => {
    await groupsBy([
      [1, 0],
      [1, 0],
      [1, 0],
      [1, 1],
      [1, 0],
      [0, 0],
    ]);
    const donorsFor = async (order: readonly number[]) => {
      const { data } = await trainingDataOf(
        {
          batches: [await putManifest(world.now.store, named(order))],
          samples: 2,
          algorithm,
          replace: { groups: 5, minReplaceRatio: 0.3 },
        },
        world.now.store,
      );
      return firstTokens(data.slice(8));
    };
    const orders = [
      [0, 1, 2, 3, 4],
      [1, 0, 2, 3, 4],
      [2, 1, 0, 3, 4],
      [4, 1, 2, 3, 0],
      [0, 1, 2, 5, 4],
      [0, 4, 2, 5, 1],
    ];
    const donors = await Promise.all(orders.map(donorsFor));
    expect(new Set(donors.map((one) => one[0])).size).toBeGreaterThan(1);
    expect(await Promise.all(orders.map(donorsFor))).toEqual(donors);
  });
});

it('rewards that differ in their last digits alone do not vary', async () => {
  const { store } = world.now;
  for (const [task, difference] of [5e-7, 2e-6].entries())
    for (const k of [0, 1]) await ended(store, task, k, 0.5 + k * difference);
  expect(Object.values(await fatesOf([0, 1], 2))).toEqual([
    'dropped zero-variance',
    'dropped zero-variance',
    'trained',
    'trained',
  ]);
});

it('a single remaining member does not vary if groups are drawn until enough do; otherwise it is a group of one', async () => {
  const { store } = world.now;
  await ended(store, 0, 0, 1);
  await ended(store, 0, 1, 'engine-lost');
  const told = async (samples: number, wanted?: number) =>
    [
      ...(await prepare([0], samples, wanted, { advantage: 'reinforce++', zeroVarianceFilter: true })).fates.values(),
    ].map(({ event, reason }) => `${event} ${reason}`.trim());
  expect(await told(2)).toEqual(['masked engine-lost', 'trained']);
  expect(await told(2, 1)).toEqual(['masked engine-lost', 'dropped zero-variance']);
  expect(await told(1, 1)).toEqual(['trained']);
});

it('reports groups that did not vary and, if rollouts overlap with updates, the staleness of the others', async () => {
  const { store } = world.now;
  for (const [task, rewards] of [
    [1, 0],
    [1, 1],
    [0, 0],
  ].entries())
    for (const [k, reward] of rewards.entries()) await ended(store, task, k, reward);
  await said(0, 0, [{ version: 3, sampled: [1], logprobs: [-1] }]);
  await said(0, 1, [{ version: 5, sampled: [1], logprobs: [-1] }]);
  expect((await prepare([0, 1, 2], 2)).metrics).toMatchObject({ 'reward/num_zero_variance_filtered': 2 });
  expect((await prepare([0, 1, 2], 2)).groupRewards).toEqual({ varied: 1, alike: 2 });
  expect((await prepare([1, 2], 2, undefined, { zeroVarianceFilter: false })).groupRewards).toEqual({
    varied: 0,
    alike: 2,
  });
  expect(
    (await prepare([1, 2], 2, undefined, { advantage: 'reinforce++', zeroVarianceFilter: false })).groupRewards,
  ).toBeUndefined();
  expect((await prepare([0, 1, 2], 2, undefined, { zeroVarianceFilter: false })).metrics).not.toHaveProperty(
    'reward/num_zero_variance_filtered',
  );
  const input = {
    batches: [
      await putManifest(
        store,
        [0, 1, 2].map((task) => attemptOf(task).task),
      ),
    ],
    samples: 2,
    algorithm,
    policy: { uri: 'file:///', version: 5 },
  };
  expect((await trainingDataOf({ ...input, units: [1], wanted: 1 }, store)).metrics).toMatchObject({
    'async/staleness_max': 2,
    'async/staleness_ratio': 1,
  });
  expect((await trainingDataOf(input, store)).metrics).not.toHaveProperty('async/staleness_max');
});

it('a group whose learnt rollouts have equal rewards teaches nothing, whatever the other members got', async () => {
  const { store } = world.now;
  const overlong = async (task: number, k: number, reward: number) =>
    store.putOnce(keys.outcome(attemptOf(task, k).rollout), {
      ...attemptOf(task, k),
      turns: 0,
      status: 'graded',
      reward,
      passed: false,
      finish: 'context',
      failure: null,
      reason: '',
    });
  for (const [k, reward] of [1, 1].entries()) await ended(store, 0, k, reward);
  for (const [k, reward] of [1, 0].entries()) await ended(store, 1, k, reward);
  for (const task of [0, 1]) await overlong(task, 2, 0);
  const told = async (overlongFilter: boolean) =>
    Object.values(
      Object.fromEntries(
        [...(await prepare([0, 1], 3, undefined, { overlongFilter })).fates].map(([rollout, { event }]) => [
          rollout,
          event,
        ]),
      ),
    );
  expect(await told(true)).toEqual(['dropped', 'dropped', 'dropped', 'trained', 'trained', 'masked']);
  expect(await told(false)).toEqual(Array(6).fill('trained'));
});
