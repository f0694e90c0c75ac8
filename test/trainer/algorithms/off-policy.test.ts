/** Weights, masks and metrics of off-policy correction against SkyRL's own functions. */

import { expect } from 'vitest';
import { correctOffPolicy } from '../../../trainer/algorithms/off-policy.ts';
import { offPolicyOf } from './skyrl-settings.ts';
import { closeAll, eachCase, flat, lengthsOf, mustFail, type Named, sameMetrics, type Table } from './vectors.ts';

interface OffPolicyCase extends Named {
  readonly config: Readonly<Record<string, unknown>>;
  readonly old_log_probs: Table;
  readonly rollout_logprobs: Table;
  readonly loss_mask: Table;
  readonly expected: {
    readonly tis_ratio: Table | null;
    readonly new_loss_mask: Table;
    readonly metrics: Readonly<Record<string, number | null>>;
  };
}

eachCase<OffPolicyCase>('off_policy', (given, where) => {
  const { loss_mask: mask, expected } = given;
  const tokens = {
    starts: lengthsOf(mask),
    mask: flat(mask),
    old: flat(given.old_log_probs),
    rollout: flat(given.rollout_logprobs),
  };
  const run = () => correctOffPolicy(tokens, offPolicyOf(given.config));
  if (mustFail(where, expected, run)) return;
  const got = run();
  expect(Array.from(got.mask), `${where} mask`).toEqual(flat(expected.new_loss_mask));
  sameMetrics(where, got.metrics, expected.metrics);
  if (expected.tis_ratio === null) return expect(got.weights, `${where} weights`).toBeUndefined();
  // A sequence's weight is given once for all of its tokens.
  const wanted = expected.tis_ratio.flatMap((row, r) =>
    row.length === mask[r]!.length ? row : mask[r]!.map(() => row[0]!),
  );
  closeAll(`${where} weights`, got.weights ?? [], wanted);
});
