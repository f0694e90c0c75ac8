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
import { stepsIn } from './steps.ts';

const world = useWorld();
const { said, prepare, fatesOf } = stepsIn(world);

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
