/**
 * Hunts errors of the user's own code that are retried as if a machine had failed, and answers with a wrong number of
 * values, which would train the wrong tokens.
 */
import { expect, test } from 'vitest';
import { withFailureMapping } from '../../../activities/failure-mapping.ts';
import { advantageEstimators, defineAdvantage } from '../../../trainer/algorithms/advantages/registry.ts';
import { LossRefused } from '../../../trainer/algorithms/losses/loss.ts';
import { defineLoss, policyLosses } from '../../../trainer/algorithms/losses/registry.ts';
import { lossSettings } from '../../../trainer/training/settings.ts';
import { algorithm } from '../../activities/world.ts';

const mask = new Uint8Array([1]);
const values = new Float64Array([-1]);
const terms = (name: string) =>
  policyLosses
    .get(name)
    .terms(
      { starts: [0, 1], mask, logprobs: values, old: values, advantages: values },
      lossSettings(algorithm, 'noise'),
    );

test("an error of a user's own loss is final, and names the loss and its message", async () => {
  defineLoss(
    'broken',
    Object.freeze({
      correctable: true,
      terms: () => {
        throw new TypeError('x is undefined');
      },
    }),
  );
  expect(policyLosses.get('broken').correctable).toBe(true);
  await expect(withFailureMapping(async () => terms('broken'))).rejects.toMatchObject({
    type: 'OwnCodeFailed',
    nonRetryable: true,
    message: expect.stringMatching(
      /^your loss broken threw TypeError: x is undefined \(.*own-code\.test\.ts:\d+\): fix its module, then start a run with another name$/,
    ),
  });
  defineLoss('refusing', {
    correctable: true,
    terms: () => {
      throw new LossRefused('not so');
    },
  });
  expect(() => terms('refusing')).toThrow(LossRefused);
});

test("an error of a user's own estimator is final, and an estimator that is an instance of a class keeps its `this`", async () => {
  class Mine {
    readonly over = 'group';
    readonly #least = 2;
    estimate(rewards: readonly number[]): number[] {
      if (rewards.length < this.#least) throw new RangeError('too few');
      return rewards.map((r) => r - this.#least);
    }
  }
  defineAdvantage('mine', new Mine());
  const estimator = advantageEstimators.get('mine');
  const estimate = (rewards: number[]) =>
    estimator.over === 'group' && estimator.estimate(rewards, { normaliseByStd: false, gamma: 1, lambd: 1 });
  expect(estimate([2, 3])).toEqual([0, 1]);
  await expect(withFailureMapping(async () => estimate([1]))).rejects.toMatchObject({
    type: 'OwnCodeFailed',
    nonRetryable: true,
    message: expect.stringContaining('RangeError: too few'),
  });
});

test.each([
  ['values', { values: new Float64Array(0), slopes: new Float64Array(1) }, '0 values for 1'],
  ['slopes', { values: new Float64Array(1), slopes: new Float64Array(3) }, '3 slopes for 1'],
  ['nothing', undefined, 'no values for 1'],
])("a user's own loss whose answer does not fit the tokens is refused: %s", (name, answer, returned) => {
  defineLoss(`short-${name}`, { correctable: true, terms: () => answer as never });
  expect(() => terms(`short-${name}`)).toThrow(`your loss short-${name} returned ${returned}: fix its module`);
});

test("a user's own estimator with a wrong number of advantages or returns is refused", () => {
  const tokens = { starts: [0, 1, 3], mask: new Uint8Array([1, 1, 1]), rewards: new Float64Array(3) };
  const settings = { normaliseByStd: false, gamma: 1, lambd: 1 };
  const estimate = (name: string, advantages: number[], returns: number[] | undefined) => {
    defineAdvantage(name, {
      over: 'token',
      estimate: () =>
        ({ advantages: Float64Array.from(advantages), returns: returns && Float64Array.from(returns) }) as never,
    });
    const estimator = advantageEstimators.get(name);
    return estimator.over === 'token' && estimator.estimate(tokens, settings);
  };
  expect(() => estimate('a-rollout', [1, 2], [0, 0, 0])).toThrow(
    'your advantage a-rollout returned 2 advantages for 3',
  );
  expect(() => estimate('short-returns', [1, 2, 3], [0])).toThrow('returned 1 returns for 3');
  expect(estimate('without-returns', [1, 2, 3], undefined)).toMatchObject({ advantages: Float64Array.from([1, 2, 3]) });
  defineAdvantage('half-a-group', { over: 'group', estimate: (rewards) => rewards.slice(1) });
  const half = advantageEstimators.get('half-a-group');
  expect(() => half.over === 'group' && half.estimate([1, 2], settings)).toThrow('returned 1 advantages for 2');
});
