/** KL estimates, their use in loss and reward, and the controllers against SkyRL's own functions. */

import { expect } from 'vitest';
import { nextKlCoefficient, klEstimate, penaliseRewards, klLoss } from '../../../trainer/algorithms/kl.ts';
import type { KlEstimator } from '../../../protocol/algorithm.ts';
import { close, closeAll, eachCase, flat, lengthsOf, mustFail, type Named, type Table } from './vectors.ts';

interface KlCase extends Named {
  readonly kind: KlEstimator;
  readonly log_probs: Table;
  readonly ref_log_probs: Table;
  readonly loss_mask: Table;
}

const tokensOf = (given: KlCase) => ({
  starts: lengthsOf(given.loss_mask),
  mask: flat(given.loss_mask),
  logprobs: flat(given.log_probs),
  reference: flat(given.ref_log_probs),
});

interface EstimateCase extends KlCase {
  readonly expected: {
    readonly kl: Table;
    readonly kl_unmasked: Table;
    readonly grad_of_sum: Table | null;
    readonly kl_loss: number;
  };
}

eachCase<EstimateCase>('kl', (given, where) => {
  const tokens = tokensOf(given);
  if (mustFail(where, given.expected, () => klEstimate(given.kind, -1, -1))) return;
  const estimates = tokens.logprobs.map((logprob, i) => klEstimate(given.kind, logprob, tokens.reference[i]!));
  closeAll(
    `${where} kl`,
    estimates.map(({ kl }, i) => kl * tokens.mask[i]!),
    flat(given.expected.kl),
  );
  closeAll(
    `${where} kl_unmasked`,
    estimates.map(({ kl }) => kl),
    flat(given.expected.kl_unmasked),
  );
  if (given.expected.grad_of_sum !== null) {
    closeAll(
      `${where} gradient`,
      estimates.map(({ slope }, i) => slope * tokens.mask[i]!),
      flat(given.expected.grad_of_sum),
    );
  }
  close(`${where} kl_loss`, klLoss(tokens, given.kind, given.loss_mask.length).value, given.expected.kl_loss);
});

interface ControllerCase extends Named {
  readonly type: 'adaptive' | 'fixed';
  readonly init?: number;
  readonly target?: number;
  readonly horizon: number;
  readonly steps?: ReadonlyArray<{ readonly current: number; readonly n_steps: number; readonly value_after: number }>;
  readonly expected_error?: string;
}

eachCase<ControllerCase>(
  'kl_controller',
  ({ type, init = 0.1, target = 0.1, horizon, steps = [], expected_error: error }, where) => {
    const next = (weight: number, kl: number, sequences: number) =>
      nextKlCoefficient(weight, { controller: type, target, horizon }, kl, sequences);
    if (error !== undefined) return expect(() => next(init, 0.1, 1), where).toThrow(RangeError);
    let weight = init;
    for (const [i, step] of steps.entries()) {
      weight = next(weight, step.current, step.n_steps);
      close(`${where} step ${i}`, weight, step.value_after);
    }
  },
);

interface RewardCase extends KlCase {
  readonly kl_coef: number;
  readonly rewards: Table;
  readonly expected: { readonly rewards: Table; readonly avg_kl: number; readonly avg_kl_max: number };
}

eachCase<RewardCase>('kl_in_reward', (given, where) => {
  const got = penaliseRewards({ ...tokensOf(given), rewards: flat(given.rewards) }, given.kind, given.kl_coef);
  closeAll(`${where} rewards`, got.rewards, flat(given.expected.rewards));
  close(`${where} avg_kl`, got.mean, given.expected.avg_kl);
  close(`${where} avg_kl_max`, got.max, given.expected.avg_kl_max);
});
