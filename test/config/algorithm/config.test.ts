/** Hunts algorithm settings that have no effect, contradict each other, or are refused without the reason. */
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { resolveRunConfig } from '../../../config/run-config.ts';
import { checkDefinitions } from '../../../config/algorithm/config.ts';
import { advantageEstimators, defineAdvantage } from '../../../trainer/algorithms/advantages/registry.ts';
import { lossSettings } from '../../../trainer/training/settings.ts';
import { LORA_TARGETS } from '../../../protocol/algorithm.ts';
import { defineLoss, LOSSES, policyLosses } from '../../../trainer/algorithms/losses/registry.ts';

const settings = { task: { name: 'swe-mini' } };

const algorithmOf = (algorithm: object, more: object = {}) =>
  resolveRunConfig({ ...settings, policy: { base: '/p' }, algorithm, ...more }, '/').algorithm;

const refused = (field: string, remedy: RegExp) =>
  expect.objectContaining({
    name: 'UserInputError',
    field: `algorithm.${field}`,
    remedy: expect.stringMatching(remedy) as string,
  });

it('rollouts that overlap with updates are corrected by default; without overlap there is no correction', () => {
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
])('rollouts that overlap are not weighted twice: %s has its own ratio to the sampling policy', (loss, more) => {
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
])(
  'rollouts that overlap are weighted by token with %s, whose ratio is to the policy before the update',
  (loss, more) => {
    const { algorithm } = resolveRunConfig(
      { ...settings, policy: { base: '/p' }, training: { mode: 'one-step-off' }, algorithm: { loss, ...more } },
      '/',
    );
    expect(algorithm.offPolicyCorrection).toMatchObject({ tisRatioType: 'token' });
  },
);

it('resolved settings stay the same if they are resolved again, for every loss and estimator', () => {
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
  'gradients are not clipped if maxGradNorm is %s, also after conversion to JSON and back',
  (word) => {
    const { maxGradNorm, critic } = algorithmOf(
      parse(`{ advantage: gae, maxGradNorm: ${word}, critic: { maxGradNorm: ${word} } }`) as object,
    );
    expect([maxGradNorm, critic?.maxGradNorm]).toEqual([null, null]);
    expect(algorithmOf(JSON.parse(JSON.stringify({ maxGradNorm })) as object)).toMatchObject({ maxGradNorm: null });
  },
);

it('fills in only settings that have an effect', () => {
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
    base: 'file:///critic',
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
  ['offPolicyCorrection', { loss: 'kl_cov', offPolicyCorrection: {} }, /supports no off-policy correction/],
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

it('a critic, whole or an adapter, can be trained in shards, in every placement and mode', () => {
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

it("a critic with a user's estimator is refused if the estimator compares groups", () => {
  defineAdvantage('pairwise', { over: 'group', estimate: (rewards) => rewards.map(() => 0) });
  const given = algorithmOf({ advantage: 'pairwise', critic: {} }, { modules: ['m.ts'] });
  expect(given).toMatchObject({ valueClip: 0.2, critic: { learningRate: 5e-6 } });
  expect(() => checkDefinitions(given)).toThrow(refused('critic', /pairwise compares a group's rewards/));
  expect(() => checkDefinitions(algorithmOf({ advantage: 'pairwise' }, { modules: ['m.ts'] }))).not.toThrow();
  expect(() => checkDefinitions(algorithmOf({ advantage: 'gae' }))).not.toThrow();
});

it('groups of one rollout are allowed only for estimators that do not compare groups', () => {
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
  expect(() => resolveRunConfig(given, '/')).toThrow(refused('zeroVarianceFilter', /only on groups that vary/));
});

it('groups that do not vary are replaced only in modes that judge a step as a whole', () => {
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
    /^batch\.dynamicSampling\.type: .*no batch is judged as a whole/,
  );
  expect(() => resolved({ type: 'replace' }, { algorithm: { advantage: 'gae' } })).toThrow(
    refused('zeroVarianceFilter', /give true/),
  );
});

it.each(Object.keys(LOSSES))('%s has the same defaults in a configuration and in an update without one', (loss) => {
  const { clipLow: _low, clipHigh: _high, ...update } = algorithmOf({});
  expect(lossSettings(algorithmOf({ loss }))).toEqual(lossSettings({ ...update, loss }));
});

it("a user's name requires the modules that define it; a module of the algorithm alone is refused", () => {
  const given = (more: object) => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...more }, '/').algorithm;
  expect(() => given({ algorithm: { loss: 'mine' } })).toThrow(/^algorithm\.loss: .*or the modules that define it/);
  expect(() => given({ algorithm: { loss: 'cipso' } })).toThrow(/; did you mean cispo\?$/);
  expect(given({ modules: ['m.ts'], algorithm: { loss: 'mine' } })).toMatchObject({ loss: 'mine', clipLow: 0.2 });
  expect(() => given({ modules: ['m.ts'], algorithm: { loss: 'mine', module: 'm.ts' } })).toThrow(
    /^algorithm\.module: "m\.ts" cannot be used; name the file in modules/,
  );
});

it('a loss without off-policy correction trains in every mode; a correction that is set for it is refused', () => {
  defineLoss('uncorrected', { correctable: false, terms: () => ({ loss: [], gradient: [] }) as never });
  const own = { loss: 'uncorrected' };
  const inMode = (mode: string, algorithm: object) =>
    resolveRunConfig({ ...settings, modules: ['/m.ts'], policy: { base: '/p' }, training: { mode }, algorithm }, '/')
      .algorithm;
  for (const mode of ['sync', 'one-step-off', 'async'] as const)
    expect(() => checkDefinitions(inMode(mode, own), mode), mode).not.toThrow();
  const corrected = { ...own, offPolicyCorrection: { tisRatioType: 'sequence' } };
  const notApplied = refused('offPolicyCorrection', /leave it out: uncorrected/);
  expect(() => checkDefinitions(inMode('async', corrected), 'async')).toThrow(notApplied);
  expect(() => checkDefinitions(inMode('sync', { ...own, offPolicyCorrection: {} }), 'sync')).toThrow(notApplied);
});
