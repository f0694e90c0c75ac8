/** Hunts a run that begins with a policy that nothing can train, or is refused without its reason. */
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { resolveRunConfig } from '../../config/run-config.ts';
import { checkDefinitions } from '../../config/algorithm/config.ts';
import { advantageEstimators, defineAdvantage } from '../../trainer/algorithms/advantages/registry.ts';
import { LORA_TARGETS } from '../../protocol/algorithm.ts';
import { policyLosses } from '../../trainer/algorithms/losses/registry.ts';

const settings = { task: { name: 'swe-mini' } };

it.each([
  ['an endpoint', { endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm' } }, 'policy.endpoint'],
  [
    'an endpoint beside a base',
    { base: '/p', endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm' } },
    'policy.endpoint',
  ],
  ['an address as the base', { base: 'https://host/v1' }, 'policy.base'],
])('training of %s is refused with the reason and the remedy', (_, policy, field) => {
  const refused = () => resolveRunConfig({ ...settings, policy }, '/');
  expect(refused).toThrow(
    expect.objectContaining({
      name: 'UserInputError',
      field,
      remedy: expect.stringMatching(/cannot be trained.*no updates.*give policy\.base/) as string,
    }),
  );
});

it('another setting that there is not is refused by its name', () => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p', model: 'm' } }, '/')).toThrow(/^policy.model: /);
});

it.each([
  [{ mode: 'sync', maxStalenessSteps: 2 }, 'training.maxStalenessSteps', /no effect in mode sync.*choose async/],
  [{ mode: 'one-step-off', maxStalenessSteps: 1 }, 'training.maxStalenessSteps', /no effect in mode one-step-off/],
  [{ mode: 'sync', rolloutVersion: 'newest' }, 'training.rolloutVersion', /choose one-step-off or async/],
  [
    { mode: 'async', maxStalenessSteps: 2, maskStalenessSteps: 2 },
    'training.maskStalenessSteps',
    /more than 2 steps late/,
  ],
  [{ mode: 'async', maxStalenessSteps: -1 }, 'training.maxStalenessSteps', /./],
  [{ mode: 'sometimes' }, 'training.mode', /./],
  [{ shards: 0 }, 'training.shards', /./],
  [{ shards: 65 }, 'training.shards', /./],
  [{ mode: 'async', placement: 'elsewhere' }, 'training.placement', /./],
])('training %j is refused by field, with the remedy', (training, field, remedy) => {
  const refused = () => resolveRunConfig({ ...settings, policy: { base: '/p' }, training }, '/');
  expect(refused).toThrow(expect.objectContaining({ field, remedy: expect.stringMatching(remedy) as string }));
});

it('what overlaps with updates is corrected, unless it is said otherwise; what does not is left as it was', () => {
  const resolved = (given: object) => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...given }, '/');
  expect(resolved({}).training).toEqual({ mode: 'sync' });
  expect(resolved({ training: { shards: 1, placement: 'colocated' } }).training).toEqual({ mode: 'sync' });
  expect(resolved({ training: { shards: 3, placement: 'disaggregated' } }).training).toEqual({
    mode: 'sync',
    shards: 3,
    placement: 'disaggregated',
  });
  expect(resolved({ training: { mode: 'async', shards: 2 } }).training).toMatchObject({
    mode: 'async',
    shards: 2,
    maxStalenessSteps: 4,
  });
  expect(resolved({}).algorithm.offPolicyCorrection).toBeUndefined();
  const token = { tisRatioType: 'token', tokenTisRatioClipHigh: 2, sequenceMaskMetric: 'none' };
  const overlapping = resolved({ training: { mode: 'async' } });
  expect(overlapping.training).toEqual({ mode: 'async', maxStalenessSteps: 4, rolloutVersion: 'newest' });
  expect(overlapping.algorithm.offPolicyCorrection).toEqual(token);
  expect(resolved({ training: { mode: 'one-step-off' } }).training).toEqual({
    mode: 'one-step-off',
    rolloutVersion: 'begin',
  });
  const none = { training: { mode: 'async' }, algorithm: { offPolicyCorrection: { tisRatioType: 'none' } } };
  expect(resolved(none).algorithm.offPolicyCorrection).toEqual({ tisRatioType: 'none', sequenceMaskMetric: 'none' });
});

it.each([
  ['rollout_is', {}],
  ['dppo', {}],
  ['cispo', { cispo: { anchor: 'rollout' } }],
])('what overlaps is not weighted twice: %s takes its own ratio to what sampled', (loss, more) => {
  const resolved = (mode: string, given: object = {}) =>
    resolveRunConfig(
      { ...settings, policy: { base: '/p' }, training: { mode }, algorithm: { loss, ...more, ...given } },
      '/',
    ).algorithm;
  for (const mode of ['async', 'one-step-off']) expect(resolved(mode)).not.toHaveProperty('offPolicyCorrection');
  expect(
    resolved('async', { offPolicyCorrection: { sequenceMaskMetric: 'geometric' } }).offPolicyCorrection,
  ).toMatchObject({ tisRatioType: 'none', geoMaskLow: 0.99 });
  const weighted = () => resolved('async', { offPolicyCorrection: { tisRatioType: 'token' } });
  if (loss === 'cispo')
    expect(weighted).toThrow(
      expect.objectContaining({
        field: 'algorithm.offPolicyCorrection',
        remedy: expect.stringMatching(/tisRatioType: none/) as string,
      }),
    );
  else expect(weighted().offPolicyCorrection).toMatchObject({ tisRatioType: 'token' });
});

it.each([
  ['regular', {}],
  ['cispo', {}],
])('what overlaps is weighted by token with %s, whose ratio is to the policy before the update', (loss, more) => {
  const { algorithm } = resolveRunConfig(
    { ...settings, policy: { base: '/p' }, training: { mode: 'one-step-off' }, algorithm: { loss, ...more } },
    '/',
  );
  expect(algorithm.offPolicyCorrection).toMatchObject({ tisRatioType: 'token' });
});

const algorithmOf = (algorithm: object) =>
  resolveRunConfig({ ...settings, policy: { base: '/p' }, algorithm }, '/').algorithm;
const refused = (field: string, remedy: RegExp) =>
  expect.objectContaining({
    name: 'UserInputError',
    field: `algorithm.${field}`,
    remedy: expect.stringMatching(remedy) as string,
  });

it('what is resolved can be given again and stays the same, for every loss and estimator', () => {
  for (const loss of policyLosses.names())
    expect(algorithmOf(algorithmOf({ loss })), loss).toEqual(algorithmOf({ loss }));
  for (const advantage of advantageEstimators.names())
    expect(algorithmOf(algorithmOf({ advantage })), advantage).toEqual(algorithmOf({ advantage }));
  for (const more of [
    { kl: { in: 'reward', controller: 'adaptive' } },
    { kl: { in: 'none' } },
    { offPolicyCorrection: {} },
    { offPolicyCorrection: { sequenceMaskMetric: 'geometric' } },
  ]) {
    expect(algorithmOf(algorithmOf(more))).toEqual(algorithmOf(more));
  }
});

it.each(['.inf', 'null'])(
  'gradients are not clipped where maxGradNorm is %s, also after a way through JSON',
  (word) => {
    const { maxGradNorm, critic } = algorithmOf(
      parse(`{ advantage: gae, maxGradNorm: ${word}, critic: { maxGradNorm: ${word} } }`) as object,
    );
    expect([maxGradNorm, critic?.maxGradNorm]).toEqual([null, null]);
    expect(algorithmOf(JSON.parse(JSON.stringify({ maxGradNorm })) as object)).toMatchObject({ maxGradNorm: null });
  },
);

it('fills in what has an effect and nothing else', () => {
  expect(algorithmOf({})).toMatchObject({
    loss: 'regular',
    advantage: 'grpo',
    clipLow: 0.2,
    clipHigh: 0.28,
    lossReduction: 'token_mean',
    zeroVarianceFilter: true,
  });
  expect(algorithmOf({ loss: 'sapo' })).toMatchObject({ sapo: { tauPositive: 1, tauNegative: 1.05 } });
  expect(algorithmOf({ loss: 'sapo' })).not.toHaveProperty('clipLow');
  expect(algorithmOf({ advantage: 'reinforce++' })).toMatchObject({ gamma: 1, zeroVarianceFilter: false });
  const gae = algorithmOf({ advantage: 'gae', critic: { learningRate: 1e-4, base: 'critic' } });
  expect(gae).toMatchObject({ gamma: 1, lambd: 1, valueClip: 0.2, zeroVarianceFilter: false });
  expect(gae.critic).toEqual({
    base: '/critic',
    learningRate: 1e-4,
    warmup: 0,
    schedule: 'constant',
    finalRate: 0,
    maxGradNorm: 1,
    weightDecay: 0,
    betas: [0.9, 0.999],
    epsilon: 1e-8,
  });
  expect(algorithmOf({ advantage: 'gae', critic: { lora: { rank: 4 } } }).critic?.lora).toEqual({
    rank: 4,
    alpha: 16,
    targetModules: [...LORA_TARGETS],
  });
  expect(algorithmOf({ advantage: 'gae', valueClip: null })).toMatchObject({
    valueClip: null,
    critic: { learningRate: 5e-6 },
  });
  expect(algorithmOf({})).not.toHaveProperty('critic');
  expect(algorithmOf({ kl: {} }).kl).toEqual({ in: 'loss', estimator: 'k3', coefficient: 0.001, controller: 'fixed' });
  expect(algorithmOf({ kl: { in: 'none' } })).not.toHaveProperty('kl');
  expect(algorithmOf({ offPolicyCorrection: {} }).offPolicyCorrection).toMatchObject({
    tisRatioType: 'token',
    tokenTisRatioClipHigh: 2,
  });
  expect(algorithmOf({ offPolicyCorrection: { outlierTokenIsThresholdHigh: 100 } }).offPolicyCorrection).toMatchObject({
    tisRatioType: 'none',
  });
});

it.each<[string, object, RegExp]>([
  ['critic', { critic: {} }, /give advantage: gae/],
  ['critic', { advantage: 'reinforce++', critic: { learningRate: 1e-5 } }, /give advantage: gae/],
  ['lambd', { advantage: 'reinforce++', lambd: 0.95 }, /give advantage: gae/],
  ['valueClip', { valueClip: 0.2 }, /give advantage: gae/],
  ['critic.lora.dropout', { advantage: 'gae', critic: { lora: { dropout: 0.1 } } }, /no such setting/],
  ['critic.lora.rank', { advantage: 'gae', critic: { lora: { rank: 0 } } }, /./],
  ['critic.epochs', { advantage: 'gae', critic: { epochs: 2 } }, /no such setting/],
  ['critic.learningRate', { advantage: 'gae', critic: { learningRate: 0 } }, /./],
  ['normaliseByStd', { advantage: 'gae', normaliseByStd: true }, /grpo/],
  ['advantage', { advantage: 'grop' }, /one of grpo, rloo, maxrl, reinforce\+\+, gae, or the module/],
  ['loss', { loss: 'ppo' }, /one of regular, dual_clip/],
  ['clipLow', { loss: 'cispo', clipLow: 0.2 }, /give loss: regular or dual_clip/],
  ['clipRatioC', { clipRatioC: 3 }, /give loss: dual_clip/],
  ['sapo', { sapo: {} }, /give loss: sapo/],
  ['gamma', { gamma: 0.9 }, /reinforce\+\+/],
  ['normaliseByStd', { advantage: 'rloo', normaliseByStd: true }, /grpo/],
  ['lossReduction', { loss: 'cross_entropy', lossReduction: 'token_mean' }, /plain sum/],
  ['maxSequenceTokens', { maxSequenceTokens: 8 }, /seq_mean_token_sum_norm/],
  ['maxSequenceTokens', { lossReduction: 'seq_mean_token_sum_norm' }, /divided by/],
  ['offPolicyCorrection', { loss: 'kl_cov', offPolicyCorrection: {} }, /takes no off-policy correction/],
  ['offPolicyCorrection', { loss: 'cispo', cispo: { anchor: 'rollout' }, offPolicyCorrection: {} }, /anchor: old/],
  [
    'offPolicyCorrection.sequenceTisRatioClipHigh',
    { offPolicyCorrection: { sequenceTisRatioClipHigh: 5 } },
    /tisRatioType: sequence/,
  ],
  ['offPolicyCorrection.geoMaskLow', { offPolicyCorrection: { geoMaskLow: 0.9 } }, /geometric/],
  [
    'offPolicyCorrection.tokenMaskIsThresholdLow',
    { offPolicyCorrection: { tokenMaskIsThresholdLow: 0.9 } },
    /two bounds/,
  ],
  ['maxGradNorm', { maxGradNorm: 0 }, /./],
  ['maxGradNorm', { maxGradNorm: -Infinity }, /./],
  ['kl.target', { kl: { target: 0.1 } }, /adaptive/],
  ['kl.coefficient', { kl: { in: 'none', coefficient: 0.1 } }, /in: loss or in: reward/],
])('algorithm.%s without effect, or unknown, is refused with its remedy', (field, algorithm, remedy) => {
  expect(() => algorithmOf(algorithm)).toThrow(refused(field, remedy));
});

it.each([
  [
    { dispatcher: { max_parallel_agents: 4 } },
    'dispatcher.max_parallel_agents: 4 cannot be used; write it as dispatcher.maxParallelAgents',
  ],
  [
    { max_eval_parallel_agents: 4 },
    'max_eval_parallel_agents: 4 cannot be used; write it as dispatcher.maxEvalParallelAgents',
  ],
  [{ agent: { max_turns: 4 } }, 'agent.max_turns: 4 cannot be used; write it as agent.maxTurns'],
  [{ breaker: { inARow: 4 } }, 'breaker.inARow: 4 cannot be used; write it as breaker.maxConsecutiveFailures'],
  [{ agent: { no_such_thing: 4 } }, 'agent.no_such_thing: 4 cannot be used; remove it, there is no such setting'],
])('%j, in the spelling of others, is told its name here', (over, message) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...over }, '/')).toThrow(message);
});

it('a critic, whole or an adapter, goes with updates in shards, wherever and beside whatever they are made', () => {
  for (const lora of [undefined, { rank: 4 }]) {
    for (const training of [{ shards: 4 }, { shards: 2, placement: 'disaggregated' }, { mode: 'async', shards: 2 }]) {
      const policy = { base: '/p', ...(lora && { lora }) };
      const config = resolveRunConfig(
        { ...settings, policy, training, algorithm: { advantage: 'gae', critic: lora ? { lora } : {} } },
        '/',
      );
      expect(config.training).toMatchObject(training);
      expect(config.algorithm.critic?.lora?.rank).toBe(lora?.rank);
    }
  }
});

it('a critic beside an estimator of one own is refused where that compares groups', () => {
  defineAdvantage('pairwise', { over: 'group', estimate: (rewards) => rewards.map(() => 0) });
  const given = algorithmOf({ advantage: 'pairwise', module: 'm.mjs', critic: {} });
  expect(given).toMatchObject({ valueClip: 0.2, critic: { learningRate: 5e-6 } });
  expect(() => checkDefinitions(given)).toThrow(refused('critic', /pairwise compares a group's rewards/));
  expect(() => checkDefinitions(algorithmOf({ advantage: 'pairwise', module: 'm.mjs' }))).not.toThrow();
  expect(() => checkDefinitions(algorithmOf({ advantage: 'gae' }))).not.toThrow();
});

it('groups of one are for estimators that compare no group', () => {
  const resolved = (advantage: string, batch: object = {}) =>
    resolveRunConfig(
      { ...settings, policy: { base: '/p' }, batch: { samples: 1, ...batch }, algorithm: { advantage } },
      '/',
    );
  for (const advantage of ['gae', 'reinforce++']) expect(resolved(advantage).batch.samples).toBe(1);
  for (const advantage of ['grpo', 'rloo', 'maxrl'])
    expect(() => resolved(advantage)).toThrow(
      expect.objectContaining({
        field: 'batch.samples',
        remedy: expect.stringMatching(`2 or more: ${advantage} compares`) as string,
      }),
    );
  expect(() => resolved('gae', { samples: 0 })).toThrow(expect.objectContaining({ field: 'batch.samples' }));
});

it('dynamic sampling and groups that do not vary exclude each other', () => {
  const given = {
    ...settings,
    policy: { base: '/p' },
    batch: { dynamicSampling: { type: 'filter' } },
    algorithm: { zeroVarianceFilter: false },
  };
  expect(() => resolveRunConfig(given, '/')).toThrow(refused('zeroVarianceFilter', /groups that vary alone/));
});

it('groups that do not vary are replaced where a step is judged as one', () => {
  const resolved = (dynamicSampling: object, over: object = {}) =>
    resolveRunConfig({ ...settings, policy: { base: '/p' }, batch: { tasks: 4, dynamicSampling }, ...over }, '/');
  const given = resolved({ type: 'replace' });
  expect(given.batch.dynamicSampling).toEqual({ type: 'replace', maxSampleBatches: 4, minReplaceRatio: 0.3 });
  expect(resolveRunConfig(given, '/')).toEqual(given);
  expect(resolved({ type: 'filter' }).batch.dynamicSampling).toEqual({ type: 'filter', maxSampleBatches: 4 });
  expect(resolved({ type: 'replace' }, { training: { mode: 'one-step-off' } }).training).toMatchObject({
    mode: 'one-step-off',
  });
  expect(() => resolved({ type: 'filter', minReplaceRatio: 0.5 })).toThrow(
    /^batch\.dynamicSampling\.minReplaceRatio: 0\.5 cannot be used; leave it out, or give type: replace/,
  );
  expect(() => resolved({ type: 'replace', minReplaceRatio: 1 })).toThrow(/^batch\.dynamicSampling\.minReplaceRatio: /);
  expect(() => resolved({ type: 'replace' }, { training: { mode: 'async' } })).toThrow(
    /^batch\.dynamicSampling\.type: .*no batch is judged as one/,
  );
  expect(() => resolved({ type: 'replace' }, { algorithm: { advantage: 'gae' } })).toThrow(
    refused('zeroVarianceFilter', /give true/),
  );
  expect(() => resolved({ type: 'replace', maxSampleBatches: 300 })).toThrow(
    /^batch\.dynamicSampling\.maxSampleBatches: /,
  );
});

it('a name of one own needs the module that defines it, whose path becomes absolute', () => {
  expect(algorithmOf({ loss: 'mine', module: 'losses.mjs' })).toMatchObject({
    loss: 'mine',
    module: '/losses.mjs',
    clipLow: 0.2,
  });
});

it('an adapter has defaults, and its modules are named', () => {
  const { policy } = resolveRunConfig({ ...settings, policy: { base: 'p', lora: { rank: 16 } } }, '/here');
  expect(policy).toEqual({
    base: '/here/p',
    lora: {
      rank: 16,
      alpha: 16,
      targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    },
  });
  expect(resolveRunConfig({ ...settings, policy: { base: '/p' } }, '/').policy).toEqual({ base: '/p' });
  const refused = (lora: unknown) => () => resolveRunConfig({ ...settings, policy: { base: '/p', lora } }, '/');
  expect(refused({ rank: 0 })).toThrow(/^policy.lora.rank: /);
  expect(refused({ alpha: -1 })).toThrow(/^policy.lora.alpha: /);
  expect(refused({ targetModules: ['q_proj', 'c_attn'] })).toThrow(/^policy.lora.targetModules.1: /);
  expect(refused({ targetModules: ['q_proj', 'q_proj'] })).toThrow(/name each module once/);
});

it('options of sampling are there when they are given, and bounded', () => {
  const base = { ...settings, policy: { base: '/p' } };
  expect(resolveRunConfig(base, '/').sampling).toEqual({ temperature: 1, topP: 1, topK: 0, maxTokens: 4096 });
  const sampling = { minP: 0.05, repetitionPenalty: 1.1, stop: ['</answer>'] };
  expect(resolveRunConfig({ ...base, sampling }, '/').sampling).toMatchObject(sampling);
  const refused = (given: unknown) => () => resolveRunConfig({ ...base, sampling: given }, '/');
  expect(refused({ minP: 2 })).toThrow(/^sampling.minP: /);
  expect(refused({ repetitionPenalty: 0 })).toThrow(/^sampling.repetitionPenalty: /);
  expect(refused({ stop: [''] })).toThrow(/^sampling.stop.0: /);
});

it('stragglers are waited for unless a run says otherwise, and a group keeps two members', () => {
  const given = (batch: object) =>
    resolveRunConfig({ ...settings, policy: { base: '/p' }, batch }, '/').batch.stragglers;
  expect(given({})).toBeUndefined();
  expect(given({ samples: 4, stragglers: { deadlineSeconds: 900, completeGroupWithout: 2 } })).toEqual({
    deadlineSeconds: 900,
    completeGroupWithout: 2,
  });
  expect(() => given({ samples: 4, stragglers: { completeGroupWithout: 3 } })).toThrow(
    /^batch\.stragglers\.completeGroupWithout: 3 cannot be used; give a whole number up to 2/,
  );
  expect(() => given({ stragglers: { deadlineSeconds: 0 } })).toThrow(/^batch\.stragglers\.deadlineSeconds: 0 /);
});

// What is beyond these kills a worker or hangs a workflow, again and again: a list of a thousand million names, a timer of ages.
it.each<[object, string, string]>([
  [{ task: { name: 'swe-mini', train: 1e9 } }, 'task.train', 'give at most 1000000'],
  [
    { task: { name: 'swe-mini', train: 50_000 }, batch: { tasks: 20_001 } },
    'batch.tasks',
    'give less: a step may draw 20000 tasks (times maxSampleBatches) at most',
  ],
  [
    { task: { name: 'swe-mini', train: 50_000 }, batch: { tasks: 6_000, dynamicSampling: { type: 'filter' } } },
    'batch.tasks',
    'give less: a step may draw 20000 tasks (times maxSampleBatches) at most',
  ],
  [
    { batch: { tasks: 534 }, training: { mode: 'async' } },
    'batch.tasks',
    'give at most 533 (with maxStalenessSteps: 4) and more steps, or training.mode: sync or one-step-off',
  ],
  [
    {
      task: { name: 'swe-mini', train: 50_000 },
      batch: { tasks: 1_601 },
      training: { mode: 'async', maxStalenessSteps: 0 },
    },
    'batch.tasks',
    'give at most 1600 (with maxStalenessSteps: 0) and more steps, or training.mode: sync or one-step-off',
  ],
  [{ training: { mode: 'async', maxStalenessSteps: 1e9 } }, 'training.maxStalenessSteps', 'give at most 3198'],
  [{ batch: { tasks: 100, samples: 10_001 } }, 'batch.samples', 'give less: a step may have 1000000 rollouts at most'],
  [{ evaluation: { tasks: 1e9 } }, 'evaluation.tasks', 'give at most 20000'],
  [{ agent: { deadlineSeconds: 1e300 } }, 'agent.deadlineSeconds', 'give at most 315360000'],
  [
    { batch: { stragglers: { deadlineSeconds: 1e300 } } },
    'batch.stragglers.deadlineSeconds',
    'give seconds above 0, at most 315360000',
  ],
])('%j is refused: it is too much to be held', (over, field, remedy) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...over }, '/')).toThrow(
    expect.objectContaining({ name: 'UserInputError', field, remedy }) as Error,
  );
});

it.each([
  [533, { mode: 'async' }],
  [1_600, { mode: 'async', maxStalenessSteps: 0 }],
  [20_000, { mode: 'one-step-off' }],
])('%d groups a step are taken in %j', (tasks, training) => {
  const config = resolveRunConfig(
    { policy: { base: '/p' }, task: { name: 'swe-mini', train: 50_000 }, batch: { tasks }, training },
    '/',
  );
  expect(config.batch.tasks).toBe(tasks);
});

it.each([Number.NaN, Number.POSITIVE_INFINITY])('%d is refused as what it is', (steps) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, steps }, '/')).toThrow(
    `steps: ${steps} cannot be used; give a number`,
  );
});

it.each<[object, string, string]>([
  [{ steps: 'x' }, 'steps', 'give a number'],
  [{ steps: 1.5 }, 'steps', 'give a whole number'],
  [{ steps: 0 }, 'steps', 'give at least 1'],
  [{ algorithm: { learningRate: 0 } }, 'algorithm.learningRate', 'give more than 0'],
  [{ breaker: { share: 2 } }, 'breaker.share', 'give at most 1'],
  [{ batch: 3 }, 'batch', 'give a mapping of settings: tasks, samples, dynamicSampling, stragglers'],
  [{ dir: 7 }, 'dir', 'give a text'],
  [{ steps: 'x', stepz: 3 }, 'stepz', 'remove it, there is no such setting; did you mean steps?'],
  [{ sampling: { stop: 'x' } }, 'sampling.stop', 'give a list'],
  [{ sampling: { stop: [''] } }, 'sampling.stop.0', 'give a text of at least 1 characters'],
  [{ training: { mode: 'fast' } }, 'training.mode', 'give one of sync, one-step-off, async'],
  [{ run: 'a b' }, 'run', 'give letters, digits, dot, dash and underscore, at most 100'],
  [JSON.parse('{ "__proto__": { "x": 1 } }') as object, '__proto__', 'remove it, there is no such setting'],
])('%j is refused with what to give', (over, field, remedy) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...over }, '/')).toThrow(
    expect.objectContaining({ field, remedy }) as Error,
  );
});
