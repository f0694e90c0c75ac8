/** The Tinker API's losses: their values by hand, their slopes by differences, and the inputs that are refused. */

import { describe, expect, test } from 'vitest';
import type { TinkerDatum, TinkerLoss, TinkerPass } from '../../../protocol/tinker.ts';
import { checkAdam, checkPass, checkSettings } from '../../../trainer/tenants/check-pass.ts';
import { datumLoss, passMetrics } from '../../../trainer/tenants/token-losses.ts';
import { adam, datum, settings } from './tenants.ts';

const limits = { vocabSize: 512, maxPositions: 64 };

/** Ratios of 0.5, 1, 1.1 and 2 for advantages of both signs. */
const ratios = [0.5, 0.5, 1, 1, 1.1, 1.1, 2, 2];
const p = Float32Array.from(ratios, (_, i) => -1 - i / 8);
const sampled: TinkerDatum = datum(ratios.length, 1, {
  logprobs: p.map((x, i) => x - Math.log(ratios[i]!)),
  advantages: Float32Array.from(ratios, (_, i) => (i % 2 === 0 ? 2 : -3)),
});
const pass = (loss: TinkerLoss, one: TinkerDatum = sampled, config: TinkerPass['config'] = {}): TinkerPass => ({
  data: [one],
  loss,
  config,
  backward: true,
});

const sum = (values: readonly number[]): number => values.reduce((total, x) => total + x, 0);
const A = (i: number): number => sampled.advantages![i]!;
const clip = (r: number, low = 0.8, high = 1.2): number => Math.min(Math.max(r, low), high);

describe('values', () => {
  test.each<[TinkerLoss, (r: number, i: number) => number]>([
    ['importance_sampling', (r, i) => -r * A(i)],
    ['ppo', (r, i) => -Math.min(r * A(i), clip(r) * A(i))],
    ['cispo', (r, i) => -clip(r) * p[i]! * A(i)],
  ])('%s', (loss, formula) => {
    expect(datumLoss(pass(loss), 0, p).loss).toBeCloseTo(sum(ratios.map(formula)), 5);
  });

  test('cross_entropy: weights of both signs, and 1 without weights', () => {
    const weights = Float32Array.from(ratios, (_, i) => i - 3);
    expect(datumLoss(pass('cross_entropy', { ...sampled, weights }), 0, p).loss).toBeCloseTo(
      -sum([...p].map((x, i) => x * (i - 3))),
      5,
    );
    expect(datumLoss(pass('cross_entropy'), 0, p).loss).toBeCloseTo(-sum([...p]), 5);
  });

  test('an impossible target of weight 0 costs nothing', () => {
    const one = datum(1, 1, { weights: new Float32Array(1) });
    expect(datumLoss(pass('cross_entropy', one), 0, Float32Array.of(-Infinity))).toMatchObject({ loss: 0 });
  });

  test('thresholds come from the configuration', () => {
    const config = { clip_low_threshold: 0.6, clip_high_threshold: 1.05 };
    expect(datumLoss(pass('ppo', sampled, config), 0, p).loss).toBeCloseTo(
      sum(ratios.map((r, i) => -Math.min(r * A(i), clip(r, 0.6, 1.05) * A(i)))),
      5,
    );
  });
});

/** Marks 0.5, 2 and 2: their geometric mean is 2^(1/3), above the upper threshold. */
const masked: TinkerDatum = { ...sampled, ratioMask: Float32Array.of(1, 0, 0, 0, 0, 0, -1, 0.5) };
const sequence = 2 ** (1 / 3);

describe('dro and gspo', () => {
  test('dro: −Σ (p·A − β/2·(p − q)²)', () => {
    const { loss, clipped, greatestRatio } = datumLoss(pass('dro', sampled, { beta: 0.05 }), 0, p);
    expect(loss).toBeCloseTo(-sum(ratios.map((r, i) => p[i]! * A(i) - 0.025 * Math.log(r) ** 2)), 5);
    expect(clipped).toBe(0);
    expect(greatestRatio).toBeCloseTo(2, 5);
  });

  test('gspo: every token has the ratio of the masked ones, and its own advantage', () => {
    const one = datumLoss(pass('gspo', masked), 0, p);
    expect(one.loss).toBeCloseTo(sum(ratios.map((_, i) => -Math.min(sequence * A(i), 1.2 * A(i)))), 4);
    expect(one.leastRatio).toBeCloseTo(sequence, 5);
    expect(one.greatestRatio).toBeCloseTo(sequence, 5);
    // Advantages above 0 are clipped, in whole sequences; the others are not.
    expect(one.clipped).toBe(4);
    for (const i of ratios.keys()) expect(one.slope[i], `${i}`).toBeCloseTo(A(i) > 0 ? 0 : -sequence * A(i), 4);
    const wide = datumLoss(pass('gspo', masked, { clip_high_threshold: 2 }), 0, p);
    for (const i of ratios.keys()) expect(wide.slope[i], `${i}`).toBeCloseTo(-sequence * A(i), 4);
  });

  test('gspo of one masked token is ppo for that token', () => {
    for (const i of ratios.keys()) {
      const one = pass('gspo', { ...sampled, ratioMask: p.map((_, j) => (i === j ? 1 : 0)) });
      expect(datumLoss(one, 0, p).slope[i]).toBeCloseTo(datumLoss(pass('ppo'), 0, p).slope[i]!, 5);
    }
  });

  test('gspo by differences: the slope of Σ s_t·A with s_t = s·exp(p − p₀)', () => {
    const wide = pass('gspo', masked, { clip_low_threshold: 0, clip_high_threshold: 9 });
    const { slope, loss } = datumLoss(wide, 0, p);
    const h = 2 ** -10;
    const moved = (i: number, by: number): number => loss + sequence * A(i) - sequence * Math.exp(by) * A(i);
    for (const i of ratios.keys()) expect(slope[i]).toBeCloseTo((moved(i, h) - moved(i, -h)) / (2 * h), 3);
  });
});

describe('slopes', () => {
  test.each<TinkerLoss>(['cross_entropy', 'importance_sampling', 'ppo', 'dro'])(
    '%s: differences of its values',
    (name) => {
      const own = (loss: TinkerLoss): TinkerPass => pass(loss, sampled, loss === 'dro' ? { beta: 0.7 } : {});
      const { slope } = datumLoss(own(name), 0, p);
      const h = 2 ** -10;
      for (const i of ratios.keys()) {
        const at = (by: number): number =>
          datumLoss(
            own(name),
            0,
            p.map((x, j) => (i === j ? x + by : x)),
          ).loss;
        expect(slope[i], `${i}`).toBeCloseTo((at(h) - at(-h)) / (2 * h), 2);
      }
    },
  );

  test('cispo: the clipped ratio is a constant', () => {
    const { slope } = datumLoss(pass('cispo'), 0, p);
    for (const [i, r] of ratios.entries()) expect(slope[i], `${i}`).toBeCloseTo(-clip(r) * A(i), 5);
  });
});

test('metrics are mergeable, and count what was clipped', () => {
  const of = (loss: TinkerLoss) => passMetrics(pass(loss), [datumLoss(pass(loss), 0, p)]);
  for (const name of Object.keys(of('ppo'))) expect(name).toMatch(/^[a-z_]+:(sum|min|max)$/);
  // Of 0.5 the negative advantage, of 2 the positive one.
  expect(of('ppo')).toMatchObject({ 'tokens:sum': 8, 'datums:sum': 1, 'clipped_tokens:sum': 2 });
  expect(of('cispo')).toMatchObject({ 'clipped_tokens:sum': 4 });
  expect(of('ppo')['ratio:max']).toBeCloseTo(2, 5);
  expect(Object.keys(of('cross_entropy'))).toEqual(['loss:sum', 'datums:sum', 'tokens:sum']);
});

describe('refused before anything is computed', () => {
  const good = datum(4, 1);
  const refused = (given: TinkerPass, field: string): void =>
    expect(() => checkPass(given, limits)).toThrow(expect.objectContaining({ name: 'UserInputError', field }) as Error);
  const ce = (one: TinkerDatum): TinkerPass => ({ ...pass('cross_entropy', good), data: [good, one] });
  const is = (more: Partial<TinkerDatum>): TinkerPass => pass('importance_sampling', { ...sampled, ...more });

  test('the good ones are not', () => {
    checkPass(ce(sampled), limits);
    checkPass(is({}), limits);
    checkPass(pass('cispo', sampled, { clip_low_threshold: 0 }), limits);
    checkPass(pass('dro', sampled, { beta: 0 }), limits);
    checkPass(pass('gspo', masked, { clip_high_threshold: 1.5 }), limits);
  });

  test.each<[string, TinkerPass, string]>([
    ['no data', { ...ce(good), data: [] }, 'data'],
    ['no tokens', ce(datum(0, 1)), 'data[1].tokens'],
    ['too long', ce(datum(65, 1)), 'data[1].tokens'],
    ['fewer targets', ce({ ...good, targets: good.targets.slice(1) }), 'data[1].targets'],
    ['an id outside of the vocabulary', ce({ ...good, tokens: Int32Array.of(1, 2, 512, 3) }), 'data[1].tokens[2]'],
    ['a negative target', ce({ ...good, targets: Int32Array.of(1, -1, 2, 3) }), 'data[1].targets[1]'],
    ['fewer weights', ce({ ...good, weights: new Float32Array(3) }), 'data[1].weights'],
    ['a weight that is NaN', ce({ ...good, weights: Float32Array.of(1, NaN, 0, 0) }), 'data[1].weights[1]'],
    ['no advantages', pass('ppo', good), 'data[0].logprobs'],
    ['fewer advantages', is({ advantages: new Float32Array(1) }), 'data[0].advantages'],
    ['an infinite log-probability', is({ logprobs: new Float32Array(8).fill(-Infinity) }), 'data[0].logprobs[0]'],
    ['weights that would have no effect', is({ weights: new Float32Array(8) }), 'data[0].weights'],
    ['an unknown setting', pass('ppo', sampled, { clip_hi: 1 }), 'config.clip_hi'],
    [
      'a setting of another loss',
      pass('cross_entropy', good, { clip_low_threshold: 0.8 }),
      'config.clip_low_threshold',
    ],
    ['a threshold that is NaN', pass('ppo', sampled, { clip_high_threshold: NaN }), 'config.clip_high_threshold'],
    ['thresholds in the wrong order', pass('ppo', sampled, { clip_low_threshold: 2 }), 'config.clip_low_threshold'],
    ['an unknown loss', pass('stable_reinforce' as TinkerLoss), 'loss'],
    ['dro without its beta', pass('dro'), 'config.beta'],
    ['a negative beta', pass('dro', sampled, { beta: -1 }), 'config.beta'],
    ['thresholds for dro', pass('dro', sampled, { beta: 1, clip_low_threshold: 0.8 }), 'config.clip_low_threshold'],
    ['gspo without its mask', pass('gspo'), 'data[0].ratioMask'],
    ['a mask of fewer numbers', pass('gspo', { ...sampled, ratioMask: new Float32Array(3) }), 'data[0].ratioMask'],
    ['a mask that marks nothing', pass('gspo', { ...sampled, ratioMask: new Float32Array(8) }), 'data[0].ratioMask'],
    ['a mask that would have no effect', pass('ppo', masked), 'data[0].ratioMask'],
  ])('%s', (_name, given, field) => refused(given, field));

  test.each<[Partial<typeof adam>]>([
    [{ learningRate: -1 }],
    [{ learningRate: NaN }],
    [{ beta1: 1 }],
    [{ beta2: -0.1 }],
    [{ eps: 0 }],
    [{ eps: 1e-60 }],
    [{ weightDecay: Infinity }],
    [{ gradClipNorm: -1 }],
  ])('a step with %o', (wrong) => {
    const [field] = Object.keys(wrong);
    expect(() => checkAdam({ ...adam, ...wrong })).toThrow(expect.objectContaining({ field }) as Error);
  });

  test.each([[{ rank: 0 }], [{ rank: 1.5 }], [{ rank: 1025 }], [{ alpha: 0 }], [{ alpha: NaN }], [{ seed: 0.5 }]])(
    'an adapter with %o',
    (wrong) => {
      const [field] = Object.keys(wrong);
      expect(() => checkSettings({ ...settings, ...wrong })).toThrow(expect.objectContaining({ field }) as Error);
    },
  );
});

test.each<TinkerLoss>(['cross_entropy', 'importance_sampling', 'ppo', 'cispo', 'gspo'])(
  '%s: numbers of a model that is not finite are the model, not a field of the request',
  (loss) => {
    const broken = p.map((x, i) => (i === 2 ? NaN : x));
    const one = { ...sampled, ratioMask: p.map(() => 1) };
    expect(() => datumLoss(pass(loss, one), 0, broken)).toThrow(
      /^the model's log-probabilities: NaN cannot be used; the weights of the model are not finite/,
    );
  },
);
