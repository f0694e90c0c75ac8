/** Hunts advantages of the wrong tokens: of rollouts with several sequences, and of rollouts without tokens. */

import { expect, test } from 'vitest';
import type { Credit } from '../../../trainer/update-request.ts';
import type { UpdateSettings } from '../../../protocol/algorithm.ts';
import { creditSamples, NoCredit } from '../../../trainer/training/advantages.ts';
import { planUpdate } from '../../../trainer/training/prepare-update.ts';
import type { Sample } from '../../../trainer/training/sample.ts';
import { settings } from './stored-rollouts.ts';

function sample(rollout: string, reward: number, count: number, difference = 0): Sample {
  const credit: Credit = { reward, group: rollout[0]!, rollout };
  const tokens = Array.from({ length: count + 1 }, (_, i) => i);
  const old = new Float64Array(count).fill(-1);
  return {
    datum: { tokens, mask: tokens.map((_, i) => Math.min(1, i)), logprobs: [], credit },
    count,
    recorded: old,
    old,
    reference: old.map((x) => x - difference),
  };
}

const credited = (samples: readonly Sample[], more: Partial<UpdateSettings> = {}) =>
  creditSamples(samples, { ...settings, ...more }).advantages.map((part) => [...part]);

test('a rollout counts once in its group, and all of its sequences get its advantage', () => {
  const samples = [sample('a/0', 1, 2), sample('a/1', 0, 1), sample('a/1', 0, 3), sample('b/0', 1, 1)];
  expect(credited(samples, { advantage: 'rloo' })).toEqual([[1, 1], [-1], [-1, -1, -1], [0]]);
  expect(credited(samples, { normaliseByStd: false })).toEqual([[0.5, 0.5], [-0.5], [-0.5, -0.5, -0.5], [1]]);
});

test('a rollout without tokens is part of the baseline, and gets no advantage', () => {
  const samples = [sample('a/0', 1, 1), sample('a/1', 0, 0), sample('a/2', 0, 1)];
  expect(credited(samples, { advantage: 'rloo' })).toEqual([[1], [], [-0.5]]);
});

test('reinforce++ discounts along each sequence, whose last token has the whole reward', () => {
  const samples = [sample('a/0', 1, 1), sample('a/0', 1, 2), sample('b/0', 0, 1)];
  const [first, second] = credited(samples, { advantage: 'reinforce++', gamma: 0.5 });
  // Returns 1, 0.5, 1, 0: mean 0.625, variance 0.6875 / 3.
  const expected = (x: number) => (x - 0.625) / Math.sqrt(0.6875 / 3 + 1e-8);
  expect(first![0]).toBeCloseTo(expected(1), 12);
  expect(second![0]).toBeCloseTo(expected(0.5), 12);
  expect(second![1]).toBeCloseTo(expected(1), 12);
});

test('KL in the reward is subtracted per rollout, over all of its sequences', () => {
  const samples = [sample('a/0', 1, 2, 0.1), sample('a/1', 1, 1), sample('a/1', 1, 3, 0.2)];
  const kl = { in: 'reward', estimator: 'k1', coefficient: 0.5 } as const;
  const [a, b] = [1 - 0.5 * 0.2, 1 - 0.5 * 0.6];
  const got = credited(samples, { advantage: 'rloo', kl });
  expect(got[0]![0]).toBeCloseTo(a - b, 12);
  expect(got[2]![2]).toBeCloseTo(b - a, 12);
});

const valued = (rollout: string, reward: number, values: readonly number[], difference = 0): Sample => ({
  ...sample(rollout, reward, values.length, difference),
  values: Float64Array.from(values),
});

/** Advantages and returns of one episode, written out backwards. */
function gae(
  rewards: readonly number[],
  values: readonly number[],
  gamma: number,
  lambda: number,
): { advantages: number[]; returns: number[] } {
  const advantages = values.map(() => 0);
  for (let t = values.length - 1; t >= 0; t--) {
    const delta = rewards[t]! + gamma * (values[t + 1] ?? 0) - values[t]!;
    advantages[t] = delta + gamma * lambda * (advantages[t + 1] ?? 0);
  }
  return { advantages, returns: advantages.map((a, t) => a + values[t]!) };
}

function whitened(advantages: readonly number[]): number[] {
  const mean = advantages.reduce((sum, a) => sum + a, 0) / advantages.length;
  const variance = advantages.reduce((sum, a) => sum + (a - mean) ** 2, 0) / (advantages.length - 1);
  return advantages.map((a) => (a - mean) / Math.sqrt(variance + 1e-8));
}

const near = (got: readonly number[], wanted: readonly number[]): void => {
  expect(got.length).toBe(wanted.length);
  for (const [i, x] of got.entries()) expect(x).toBeCloseTo(wanted[i]!, 10);
};

test('gae treats each sequence of a rollout as an episode, and KL in the reward is subtracted at each token', () => {
  const [gamma, lambd] = [0.9, 0.7];
  const kl = { in: 'reward', estimator: 'k1', coefficient: 0.5 } as const;
  // The two sequences of a/0 do not follow each other; a/1 has no token that counts.
  const samples = [
    valued('a/0', 1, [0.2, -0.1], 0.3),
    valued('b/0', 0, [0.4]),
    valued('a/0', 1, [0.5, 0.6, -0.2]),
    valued('a/1', 1, []),
  ];
  const { advantages, returns, metrics } = creditSamples(samples, { ...settings, advantage: 'gae', gamma, lambd, kl });
  const parts = [gae([-0.15, 0.85], [0.2, -0.1], gamma, lambd), gae([0, 0, 1], [0.5, 0.6, -0.2], gamma, lambd)];
  const whole = {
    advantages: parts.flatMap((part) => part.advantages),
    returns: parts.flatMap((part) => part.returns),
  };
  const other = gae([0], [0.4], gamma, lambd);
  near(
    returns!.flatMap((part) => [...part]),
    [...whole.returns.slice(0, 2), ...other.returns, ...whole.returns.slice(2)],
  );
  const all = whitened([...whole.advantages, ...other.advantages]);
  near(
    advantages.flatMap((part) => [...part]),
    [...all.slice(0, 2), all[5]!, ...all.slice(2, 5)],
  );
  expect(returns!.map((part) => part.length)).toEqual([2, 1, 3, 0]);
  expect(metrics['loss/avg_kl']).toBeGreaterThan(0);
});

test('with γ = λ = 1 every return is the reward, whatever the values are', () => {
  const samples = [valued('a/0', 1, [0.2, -0.1]), valued('a/0', 1, [0.5]), valued('b/0', -2, [0.4, 7])];
  const { returns } = creditSamples(samples, { ...settings, advantage: 'gae' });
  near(
    returns!.flatMap((part) => [...part]),
    [1, 1, 1, -2, -2],
  );
});

test('given advantages are used as they are; data with some given and some not are refused', () => {
  const { tokens, mask, logprobs } = sample('a/0', 1, 2).datum;
  const bare = { tokens, mask, logprobs };
  const given = { ...sample('a/0', 1, 2), datum: { ...bare, advantage: 3 } };
  expect(credited([given])).toEqual([[3, 3]]);
  expect(() => credited([given, sample('a/1', 1, 1)])).toThrow(NoCredit);
  expect(() => credited([{ ...given, datum: bare }])).toThrow(NoCredit);
});

test('reductions: the scaled sums over micro-batches are the configured means', () => {
  const samples = [sample('a/0', 1, 2), sample('a/1', 0, 6), sample('b/0', 1, 4), sample('b/1', 0, 4)];
  const items = samples.map((one) => ({ sample: one, advantages: new Float64Array(one.count).fill(1) }));
  const sums = (more: Partial<UpdateSettings>) => {
    const [[minibatch]] = planUpdate(items, { ...settings, minibatches: 1, microBatchTokens: 1, ...more }, 'k') as [
      [ReturnType<typeof planUpdate>[0][0]],
    ];
    expect(minibatch).toMatchObject({ tokens: 16, sequences: 4 });
    const parts = minibatch!.micro.flat();
    return samples.map((one) => parts.find((part) => part.sample === one)!.advantages.reduce((sum, x) => sum + x, 0));
  };
  expect(sums({})).toEqual([2 / 16, 6 / 16, 4 / 16, 4 / 16]);
  expect(sums({ lossReduction: 'sequence_mean' }).map((x) => x.toFixed(12))).toEqual(
    Array(4).fill((1 / 4).toFixed(12)),
  );
  expect(sums({ lossReduction: 'prompt_mean' }).map((x) => x.toFixed(12))).toEqual(
    [2 / 16, 6 / 16, 4 / 16, 4 / 16].map((x) => x.toFixed(12)),
  );
  expect(sums({ lossReduction: 'seq_mean_token_sum_norm', maxSequenceTokens: 10 }).map((x) => x.toFixed(12))).toEqual(
    [2 / 40, 6 / 40, 4 / 40, 4 / 40].map((x) => x.toFixed(12)),
  );
  // One sequence per micro-batch: the mean of their means.
  expect(sums({ lossReduction: 'token_mean_legacy' }).map((x) => x.toFixed(12))).toEqual(
    Array(4).fill((1 / 4).toFixed(12)),
  );
});

test('a mean over prompts is over whole prompts in every minibatch; other reductions are cut between sequences', () => {
  const rollouts = ['a/0', 'b/0', 'c/0', 'd/0', 'a/1', 'b/1', 'c/1', 'd/1', 'd/1'];
  const items = rollouts.map((rollout) => ({ sample: sample(rollout, 1, 2), advantages: new Float64Array(2).fill(1) }));
  const planned = (more: Partial<UpdateSettings>) => planUpdate(items, { ...settings, epochs: 2, ...more }, 'k');
  const groups = (plan: ReturnType<typeof planUpdate>) =>
    plan.map((minibatches) =>
      minibatches.map(({ micro }) => new Set(micro.flat().map((one) => one.sample.datum.credit!.group)).size),
    );
  const whole = planned({ lossReduction: 'prompt_mean', minibatches: 2 });
  expect(groups(whole)).toEqual([
    [2, 2],
    [2, 2],
  ]);
  // Each prompt has half of its minibatch's loss, whatever the number of its sequences.
  for (const { micro } of whole.flat()) {
    const shares = new Map<string, number>();
    for (const {
      sample: { datum },
      advantages,
    } of micro.flat())
      shares.set(
        datum.credit!.group,
        (shares.get(datum.credit!.group) ?? 0) + advantages.reduce((sum, x) => sum + x, 0),
      );
    for (const share of shares.values()) expect(share).toBeCloseTo(0.5, 12);
  }
  expect(
    groups(planned({ minibatches: 2 }))
      .flat()
      .some((count) => count > 2),
  ).toBe(true);
});

test('with one minibatch, a mean over prompts keeps the order of the other reductions', () => {
  const items = ['a/0', 'b/0', 'a/1', 'b/1'].map((rollout) => ({
    sample: sample(rollout, 1, 2),
    advantages: new Float64Array(2).fill(1),
  }));
  const order = (more: Partial<UpdateSettings>) =>
    planUpdate(items, { ...settings, minibatches: 1, ...more }, 'k').flatMap((minibatches) =>
      minibatches.flatMap(({ micro }) => micro.flat().map((one) => one.sample)),
    );
  expect(order({ lossReduction: 'prompt_mean' })).toEqual(order({}));
});

test("turns' rewards are at their last tokens, and the rest of the reward is at the sequence's last", () => {
  const rewarded = (one: Sample, turns: ReadonlyArray<readonly [number, number]>): Sample => ({
    ...one,
    datum: { ...one.datum, credit: { ...one.datum.credit!, turns } },
  });
  // Two sequences of one rollout: each has the whole reward.
  const samples = [
    rewarded(valued('a/0', 1, [0, 0]), [[1, 0.25]]),
    rewarded(valued('a/0', 1, [0, 0, 0]), [
      [1, 0.5],
      [2, 0.25],
    ]),
    valued('b/0', 0, [0]),
  ];
  const { returns } = creditSamples(samples, { ...settings, advantage: 'gae', gamma: 1, lambd: 1 });
  near(
    returns!.flatMap((part) => [...part]),
    [1, 0.75, 1, 0.5, 0.25, 0],
  );
  // Estimators over rollouts see the reward alone.
  expect(credited(samples, { advantage: 'grpo', normaliseByStd: false })).toEqual([[1, 1], [1, 1, 1], [0]]);
});
