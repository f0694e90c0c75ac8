/** Hunts code of the user's own whose errors are taken for the machines': tried again and again, and waited for. */
import { expect, test } from 'vitest';
import { classified } from '../../../activities/failures.ts';
import { advantageEstimators, defineAdvantage } from '../../../trainer/algorithms/advantages/registry.ts';
import { LossRefused } from '../../../trainer/algorithms/losses/loss.ts';
import { defineLoss, policyLosses } from '../../../trainer/algorithms/losses/registry.ts';
import { lossSettings } from '../../../trainer/training/settings.ts';
import { algorithm } from '../../activities/world.ts';

const mask = new Uint8Array([1]);
const values = new Float64Array([-1]);
const terms = (name: string) => policyLosses.get(name).terms({ starts: [0, 1], mask, logprobs: values, old: values, advantages: values }, lossSettings(algorithm, 'noise'));

test('what a loss of one own throws is final, and names the loss and what it said', async () => {
  defineLoss('broken', Object.freeze({ correctable: true, terms: () => { throw new TypeError('x is undefined'); } }));
  expect(policyLosses.get('broken').correctable).toBe(true);
  await expect(classified(async () => terms('broken'))).rejects.toMatchObject({
    type: 'OwnCodeFailed', nonRetryable: true, message: "the loss broken of one's own threw TypeError: x is undefined: mend its module, then start a run of another name",
  });
  defineLoss('refusing', { correctable: true, terms: () => { throw new LossRefused('not so'); } });
  expect(() => terms('refusing')).toThrow(LossRefused);
});

test('what an estimator of one own throws is final, and one that is an object of a class keeps itself', async () => {
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
  const estimate = (rewards: number[]) => estimator.over === 'group' && estimator.estimate(rewards, { normaliseByStd: false, gamma: 1, lambd: 1 });
  expect(estimate([2, 3])).toEqual([0, 1]);
  await expect(classified(async () => estimate([1]))).rejects.toMatchObject({ type: 'OwnCodeFailed', nonRetryable: true, message: expect.stringContaining('RangeError: too few') });
});
