/** Advantages and the clipped loss against SkyRL-train's own functions, value and gradient, in float64. */

import { describe, expect, test } from 'vitest';
import { grpoAdvantages } from '../../trainer/algorithms/grpo-advantages.ts';
import { logprobDrift, ppoLoss } from '../../trainer/algorithms/ppo-loss.ts';
import { readJson, vectors } from './tiny-policy.ts';

type Rows = readonly (readonly number[])[];

interface Vectors {
  readonly advantages: ReadonlyArray<{
    name: string;
    estimator: string;
    token_level_rewards: Rows;
    response_mask: Rows;
    group_ids: string[];
    grpo_norm_by_std: boolean;
    epsilon: number;
    expected: { advantages: Rows };
  }>;
  readonly policy_losses: ReadonlyArray<{
    name: string;
    loss: string;
    config: { eps_clip_low?: number; eps_clip_high?: number };
    log_probs: Rows;
    old_log_probs: Rows;
    advantages: Rows;
    loss_mask: Rows;
    expected: { loss: number; grad_log_probs: Rows; metrics: { clip_ratio: number | null } };
  }>;
  readonly kl: ReadonlyArray<{
    name: string;
    kind: string;
    log_probs: Rows;
    ref_log_probs: Rows;
    loss_mask: Rows;
    expected: { kl: Rows };
  }>;
}

const all = readJson<Vectors>(vectors, 'algorithms.json');
// What is built: GRPO's advantages, PPO's clipped loss, the k3 estimate. The file of the reference holds more.
const advantages = all.advantages.filter((given) => given.estimator === 'grpo');
const losses = all.policy_losses.filter(
  ({ loss, config }) => loss === 'regular' && Object.keys(config).every((key) => key.startsWith('eps_clip')),
);
const kl = all.kl.filter((given) => given.kind === 'k3');
const close = (got: number, want: number, relative = 1e-7): void =>
  expect(Math.abs(got - want)).toBeLessThanOrEqual(relative * Math.max(1, Math.abs(want)));

describe('grpoAdvantages', () => {
  test.each(advantages.map((c) => [c.name, c] as const))('%s', (_, given) => {
    const scores = given.token_level_rewards.map((row) => row.reduce((sum, x) => sum + x, 0));
    for (const group of new Set(given.group_ids)) {
      const rows = given.group_ids.flatMap((id, row) => (id === group ? [row] : []));
      const got = grpoAdvantages(
        rows.map((row) => scores[row]!),
        {
          normaliseByStd: given.grpo_norm_by_std,
          epsilon: given.epsilon,
        },
      );
      for (const [i, row] of rows.entries()) {
        for (const [t, want] of given.expected.advantages[row]!.entries())
          close(got[i]! * given.response_mask[row]![t]!, want, 1e-6);
      }
    }
  });
});

/** The masked entries, row by row. */
const masked = (rows: Rows, mask: Rows): number[] => rows.flatMap((row, r) => row.filter((_, t) => mask[r]![t] === 1));

describe('ppoLoss', () => {
  test.each(losses.map((c) => [c.name, c] as const))('%s', (_, given) => {
    const pick = (rows: Rows): number[] => masked(rows, given.loss_mask);
    const { eps_clip_low: clipLow = 0.2, eps_clip_high: clipHigh = 0.2 } = given.config;
    const tokens = {
      logprobs: pick(given.log_probs),
      recorded: pick(given.old_log_probs),
      advantages: pick(given.advantages),
    };
    const got = ppoLoss(tokens, { clipLow, clipHigh });
    close(got.loss, given.expected.loss);
    const gradient = pick(given.expected.grad_log_probs);
    expect(got.gradient).toHaveLength(gradient.length);
    for (const [i, want] of gradient.entries()) close(got.gradient[i]!, want);
    const clipRatio = given.expected.metrics.clip_ratio;
    if (clipRatio !== null && gradient.length > 0) close(got.clipped / gradient.length, clipRatio);
  });

  test('its kl is the k3 estimate, clamped to ±20 before exp but not after', () => {
    expect(kl.length).toBeGreaterThan(0);
    for (const { log_probs: trained, ref_log_probs: other, loss_mask: mask, expected } of kl) {
      // The vectors estimate KL(trained ‖ reference) from the trained policy's samples; ours are the recorded policy's.
      const got = ppoLoss(
        { logprobs: masked(other, mask), recorded: masked(trained, mask), advantages: [] },
        { clipLow: 0.2, clipHigh: 0.2 },
      );
      const want = masked(expected.kl, mask);
      // The original also clamps each estimate to 10.
      if (want.every((x) => x < 10))
        close(
          got.kl,
          want.reduce((sum, x) => sum + x, 0),
          1e-6,
        );
    }
  });
});

test('logprobDrift', () => {
  expect(logprobDrift([-1, -2, -3], [-1, -2.5, -2.75])).toEqual({ sum: 0.75, max: 0.5 });
});
