/** Hunts rollouts with no fate or with two, and baselines that include failures. */
import { describe, expect, it } from 'vitest';
import type { ActRecord, BatchManifest, GenerateRecord } from '../../../protocol/records.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { trainingDataOf } from '../../../activities/update/training-data.ts';
import type { Datum } from '../../../trainer/update-request.ts';
import { creditSamples } from '../../../trainer/training/advantages.ts';
import type { Sample } from '../../../trainer/training/sample.ts';
import type { AlgorithmSettings } from '../../../protocol/run-config.ts';
import { algorithm, attemptOf, ended, orchestratorActivities, putManifest, RUN, useWorld } from '../world.ts';

const world = useWorld();

async function said(task: number, k: number, turns: ReadonlyArray<Partial<GenerateRecord>>): Promise<void> {
  for (const [i, turn] of turns.entries()) {
    await world.now.store.putOnce<GenerateRecord>(keys.generate(attemptOf(task, k), i + 1), {
      version: 0,
      appended: [],
      reset: false,
      sampled: [],
      logprobs: [],
      end: 'stop',
      parsed: { kind: 'no-call', content: '' },
      ...turn,
    });
  }
}

async function prepare(
  tasks: readonly number[],
  samples: number,
  wanted?: number,
  settings: Partial<AlgorithmSettings> = {},
) {
  const names = tasks.map((task) => attemptOf(task).task);
  return trainingDataOf(
    {
      batches: [await putManifest(world.now.store, names, samples)],
      samples,
      algorithm: { ...algorithm, ...settings },
      ...(wanted && { wanted }),
    },
    world.now.store,
  );
}

async function fatesOf(tasks: readonly number[], samples: number, wanted?: number) {
  const { fates } = await prepare(tasks, samples, wanted);
  return Object.fromEntries(
    [...fates].map(([rollout, { event, reason }]) => [
      rollout.slice(rollout.indexOf('toy')),
      `${event} ${reason}`.trim(),
    ]),
  );
}

it('masks failed rollouts, by class, and unfinished ones; the rest of the group is trained on', async () => {
  const { store } = world.now;
  await ended(store, 0, 0, 1);
  await ended(store, 0, 1, 0);
  await ended(store, 0, 2, 'sandbox-lost');
  await ended(store, 0, 3, 'grader-failed');
  expect(await fatesOf([0], 5)).toEqual({
    'toy-train-0/0': 'trained',
    'toy-train-0/1': 'trained',
    'toy-train-0/2': 'masked sandbox-lost',
    'toy-train-0/3': 'masked grader-failed',
    'toy-train-0/4': 'masked no-outcome',
  });
});

it("takes rewards of the environment's steps with the tokens that were sampled until then", async () => {
  const { store } = world.now;
  const step = { command: { do: 'step' } as const, logprobs: [-1, -1], sampled: [7, 8] };
  for (const k of [0, 1]) {
    await said(0, k, [step, step, { ...step, command: { do: 'answer' } as const }]);
    await ended(store, 0, k, k, 3);
  }
  const act = { messages: [], state: {} };
  await store.putOnce<ActRecord>(keys.act(attemptOf(0, 1), 1), { ...act, reward: 0.25 });
  await store.putOnce<ActRecord>(keys.act(attemptOf(0, 1), 2), { ...act, reward: 0 });
  const { data } = await prepare([0], 2);
  const creditOf = (k: number) => data.find(({ credit }) => credit?.rollout.endsWith(`/${k}`))?.credit;
  expect(creditOf(1)).toMatchObject({
    reward: 1,
    turns: [
      [2, 0.25],
      [4, 0],
    ],
  });
  expect(creditOf(0)).not.toHaveProperty('turns');
});

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

it('takes the baseline over the valid ones only: a failure is not a reward of 0', async () => {
  const { store } = world.now;
  const rewards = [1, 0.5, 0];
  for (const [k, reward] of rewards.entries()) {
    await ended(store, 0, k, reward);
    await said(0, k, [{ appended: [10, 11], sampled: [20 + k, 0], logprobs: [-1, -2] }]);
  }
  await ended(store, 0, 3, 'engine-lost');
  await said(0, 3, [{ appended: [10, 11], sampled: [99, 0], logprobs: [-1, -2] }]);
  const { data, groups, valid, sampledTokens } = await prepare([0], 4);
  expect(data.map(({ credit }) => credit?.reward)).toEqual(rewards);
  expect(new Set(data.map(({ credit }) => credit?.group))).toEqual(new Set(['train/r/step-1/toy-train-0']));
  expect(data[1]).toMatchObject({ tokens: [10, 11, 21, 0], mask: [0, 0, 1, 1], logprobs: [0, 0, -1, -2] });
  expect([groups, valid, sampledTokens]).toEqual([1, 3, 6]);
});

it('makes one sequence of a rollout, and one more each time that a template changed earlier tokens', async () => {
  const { store } = world.now;
  await ended(store, 0, 0, 1);
  await ended(store, 0, 1, 0);
  await said(0, 0, [
    { appended: [1, 2], sampled: [3], logprobs: [-1] },
    { appended: [4], sampled: [5], logprobs: [-2] },
    { appended: [6], end: 'context' },
  ]);
  await said(0, 1, [
    { appended: [1, 2], sampled: [3], logprobs: [-1] },
    { appended: [1, 9], reset: true, sampled: [5], logprobs: [-2] },
  ]);
  const { data, prefixBreaks, sampledTokens } = await prepare([0], 2);
  expect(data.map(({ tokens, mask }) => ({ tokens, mask }))).toEqual([
    { tokens: [1, 2, 3, 4, 5], mask: [0, 0, 1, 0, 1] },
    { tokens: [1, 2, 3], mask: [0, 0, 1] },
    { tokens: [1, 9, 5], mask: [0, 0, 1] },
  ]);
  expect([prefixBreaks, sampledTokens]).toEqual([1, 4]);
});

describe('makes sequences of agents and segments', () => {
  const agentPath = ['shopper@1'];
  /** The rollout's own agent, a sub-agent of two turns with a summary between them, and the own agent again. */
  const nested: ReadonlyArray<Partial<GenerateRecord>> = [
    { appended: [1, 2], sampled: [3], logprobs: [-1] },
    { agentPath, appended: [5], sampled: [6], logprobs: [-2] },
    { agentPath, appended: [7], sampled: [8], logprobs: [-3] },
    { agentPath, segment: 2, appended: [5, 9], sampled: [6], logprobs: [-4] },
    { appended: [4], sampled: [3, 3], logprobs: [-5, -6] },
  ];
  const first = { tokens: [1, 2, 3, 4, 3, 3], mask: [0, 0, 1, 0, 1, 1], logprobs: [0, 0, -1, 0, -5, -6] };

  async function nestedAndPlain(settings: Partial<AlgorithmSettings> = {}) {
    const { store } = world.now;
    await ended(store, 0, 0, 1, 5);
    await ended(store, 0, 1, 0, 1);
    await said(0, 0, nested);
    await said(0, 1, [{ appended: [1, 2], sampled: [3], logprobs: [-1] }]);
    return prepare([0], 2, undefined, settings);
  }

  it('each with its own tokens and log-probabilities, and the reward of the rollout', async () => {
    const { data, prefixBreaks, sampledTokens } = await nestedAndPlain();
    expect(data).toMatchObject([
      first,
      { tokens: [5, 6, 7, 8], mask: [0, 1, 0, 1], logprobs: [0, -2, 0, -3] },
      { tokens: [5, 9, 6], mask: [0, 0, 1], logprobs: [0, 0, -4] },
      { tokens: [1, 2, 3] },
    ]);
    expect(data.map(({ credit }) => credit?.reward)).toEqual([1, 1, 1, 0]);
    expect(new Set(data.slice(0, 3).map(({ credit }) => credit?.rollout)).size).toBe(1);
    expect([prefixBreaks, sampledTokens]).toEqual([0, 7]);
  });

  const sampleOf = (datum: Datum): Sample => ({
    datum,
    count: datum.mask.reduce((sum, one) => sum + one, 0),
    old: new Float64Array(0),
    recorded: new Float64Array(0),
    reference: undefined,
  });
  const advantagesOf = (data: readonly Datum[], advantage: 'grpo' | 'reinforce++', gamma: number) =>
    creditSamples(data.map(sampleOf), {
      ...algorithm,
      advantage,
      gamma,
      normaliseByStd: false,
      learningRates: [],
    } as unknown as Parameters<typeof creditSamples>[1]).advantages.map((part) => [...part]);

  it('which share its advantage, and count once in its group', async () => {
    const { data } = await nestedAndPlain();
    expect(advantagesOf(data, 'grpo', 1)).toEqual([[0.5, 0.5, 0.5], [0.5, 0.5], [0.5], [-0.5]]);
  });

  it('which are episodes of their own to an estimator over tokens', async () => {
    const { data } = await nestedAndPlain({ zeroVarianceFilter: false });
    const [own, shopper, later, plain] = advantagesOf(data, 'reinforce++', 0.5);
    // Each last token has the whole reward, whichever sequence follows.
    expect([own?.[2], shopper?.[1]]).toEqual([later?.[0], later?.[0]]);
    expect(own?.[1]).toBe(shopper?.[0]);
    expect([...(own ?? []).slice(0, 2), plain?.[0]].every((one) => one !== undefined && one < (later?.[0] ?? 0))).toBe(
      true,
    );
  });

  it("and a turn's reward is in the sequence of its agent", async () => {
    const { store } = world.now;
    for (const k of [0, 1]) await ended(store, 0, k, k, 4);
    const step = { command: { do: 'step' } as const, logprobs: [-1, -1], sampled: [7, 8] };
    for (const k of [0, 1])
      await said(0, k, [
        step,
        { ...step, agentPath, command: { do: 'act' } },
        step,
        { ...step, command: { do: 'answer' } },
      ]);
    const act = { messages: [], state: {} };
    await store.putOnce<ActRecord>(keys.act(attemptOf(0, 1), 1), { ...act, reward: 0.25 });
    await store.putOnce<ActRecord>(keys.act(attemptOf(0, 1), 3), { ...act, reward: 0.5 });
    const { data } = await prepare([0], 2);
    const credits = data.filter(({ credit }) => credit?.rollout.endsWith('/1')).map(({ credit }) => credit?.turns);
    expect(credits).toEqual([
      [
        [2, 0.25],
        [4, 0.5],
      ],
      undefined,
    ]);
  });
});

it('reads the turns of the attempt that ended, not those of an attempt that lost its sandbox', async () => {
  const { store } = world.now;
  await ended(store, 0, 1, 0);
  await said(0, 0, [{ appended: [1], sampled: [7], logprobs: [-1] }]);
  const again = { ...attemptOf(0, 0), attempt: 2 };
  await store.putOnce<GenerateRecord>(keys.generate(again, 1), {
    version: 0,
    appended: [1],
    reset: false,
    sampled: [8],
    logprobs: [-1],
    end: 'stop',
    parsed: { kind: 'no-call', content: '' },
  });
  await store.putOnce(keys.outcome(again.rollout), {
    rollout: again.rollout,
    task: again.task,
    attempt: 2,
    turns: 1,
    status: 'graded',
    reward: 1,
    passed: true,
    finish: 'finish-tool',
    failure: null,
    reason: '',
  });
  expect((await prepare([0], 2)).data.map(({ tokens }) => tokens)).toEqual([[1, 8]]);
});

it('takes the groups of several batches, `wanted` of each, and counts tokens by their version', async () => {
  const { store } = world.now;
  for (const task of [0, 1, 2]) for (const k of [0, 1]) await ended(store, task, k, k);
  for (const task of [0, 1])
    for (const k of [0, 1])
      await said(task, k, [
        { version: 3, sampled: [1], logprobs: [-1] },
        { version: 4 + task, sampled: [2, 3], logprobs: [-1, -1] },
      ]);
  const [first, second, third] = [0, 1, 2].map((task) => attemptOf(task).task);
  const given = { samples: 2, algorithm };
  const batches = [await putManifest(store, [first!]), await putManifest(store, [second!, third!])];
  const { tokensByVersion, groups } = await trainingDataOf({ ...given, batches }, store);
  expect(groups).toBe(3);
  expect(Object.fromEntries(tokensByVersion)).toEqual({ 3: 4, 4: 4, 5: 4 });
  const elsewhere = `train/${RUN}/group-2`;
  const rollouts = [0, 1].map((k) => `${elsewhere}/${first}/${k}`);
  for (const [k, rollout] of rollouts.entries()) {
    const outcome = await store.get<object>(keys.outcome(attemptOf(0, k).rollout));
    await store.putOnce(keys.outcome(rollout), { ...outcome, rollout });
  }
  await store.putOnce<BatchManifest>(keys.manifest(elsewhere, 1), {
    run: RUN,
    batch: elsewhere,
    groups: [{ task: first!, rollouts }],
  });
  const others = [await putManifest(store, [first!, third!]), elsewhere];
  const { fates } = await trainingDataOf({ ...given, batches: others, wanted: 1 }, store);
  expect([...fates.values()].map(({ event }) => event)).toEqual([
    'trained',
    'trained',
    'dropped',
    'dropped',
    'trained',
    'trained',
  ]);
});

it('of a batch that was rolled out again takes the manifest with the most groups, so that each rollout gets a fate', async () => {
  const { store } = world.now;
  const batch = `train/${RUN}/step-1`;
  for (const task of [0, 1, 2]) for (const k of [0, 1]) await ended(store, task, k, k);
  const activities = orchestratorActivities({
    store,
    temporal: { address: '', namespace: '', ui: '' },
    describePolicy: () => Promise.reject(new Error('not asked')),
  } as never);
  for (const groups of [2, 3, 1]) {
    const tasks = [0, 1, 2].slice(0, groups).map((task) => attemptOf(task).task);
    await activities.recordBatch({ run: RUN, batch, tasks, samples: 2 });
  }
  const { fates } = await trainingDataOf({ batches: [batch], samples: 2, algorithm }, store);
  expect(fates.size).toBe(6);
});

it('masks rollouts with a token of a version that is too old, with the reason', async () => {
  const { store } = world.now;
  for (const k of [0, 1, 2]) await ended(store, 0, k, k === 2 ? 1 : 0);
  for (const [k, version] of [3, 5, 4].entries())
    await said(0, k, [
      { version, sampled: [1], logprobs: [-1] },
      { version: 5, sampled: [1], logprobs: [-1] },
    ]);
  const given = {
    batches: [await putManifest(store, [attemptOf(0).task], 3)],
    samples: 3,
    algorithm,
    policy: { uri: 'file:///p', version: 5 },
  };
  const { fates } = await trainingDataOf({ ...given, maskStaleness: 1 }, store);
  expect([...fates.values()].map(({ reason, event }) => `${event} ${reason}`)).toEqual([
    'masked too-stale',
    'trained ',
    'trained ',
  ]);
});

it('never reads missing log-probabilities as zeros', async () => {
  await ended(world.now.store, 0, 0, 1);
  await said(0, 0, [{ sampled: [1, 2], logprobs: [-1] }]);
  expect(await fatesOf([0], 1)).toEqual({ 'toy-train-0/0': 'masked no-logprobs' });
});

it('keeps a rollout without a finish call in its group, without a token to learn', async () => {
  const { store } = world.now;
  await ended(store, 0, 0, 1);
  await ended(store, 0, 1, 0);
  await store.putOnce(keys.outcome(attemptOf(0, 2).rollout), {
    ...attemptOf(0, 2),
    turns: 1,
    status: 'graded',
    reward: 0,
    passed: false,
    finish: 'context',
    failure: null,
    reason: '',
  });
  for (const k of [0, 1, 2]) await said(0, k, [{ appended: [1], sampled: [7, 0], logprobs: [-1, -1] }]);
  const { data, fates, valid } = await prepare([0], 3, undefined, { overlongFilter: true });
  expect([...fates.values()].map(({ event, reason }) => `${event} ${reason}`.trim())).toEqual([
    'trained',
    'trained',
    'masked overlong',
  ]);
  expect(data.map(({ mask, credit }) => [mask.length, credit?.reward])).toEqual([
    [3, 1],
    [3, 0],
    [0, 0],
  ]);
  expect(valid).toBe(3);
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

it('yields its thread between rollouts, so that a large step does not delay its own heartbeat', async () => {
  const { store } = world.now;
  const tasks = Array.from({ length: 6 }, (_, task) => task);
  for (const task of tasks) for (const k of [0, 1]) await ended(store, task, k, k);
  let [turns, isDone] = [0, false];
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  await prepare(tasks, 2);
  isDone = true;
  // Once for each rollout that is read, and once for each that is turned into data.
  expect(turns).toBeGreaterThanOrEqual(24);
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
