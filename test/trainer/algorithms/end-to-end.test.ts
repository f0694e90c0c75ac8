/** From rewards to the gradient, against SkyRL's own functions. Hunts errors between the parts. */

import { klLoss } from '../../../trainer/algorithms/kl.ts';
import type { KlEstimator } from '../../../protocol/algorithm.ts';
import { policyLoss } from '../../../trainer/algorithms/losses/policy-loss.ts';
import { policyLosses } from '../../../trainer/algorithms/losses/registry.ts';
import { estimated } from './advantages.ts';
import { type NormalisedCase, normalised } from './reduced.ts';
import { lossSettingsOf } from './skyrl-settings.ts';
import { close, closeAll, eachCase, flat, lengthsOf, type Named, type Table } from './vectors.ts';

interface EndToEndCase extends NormalisedCase, Named {
  readonly estimator: string;
  readonly loss: string;
  readonly tis_ratio_type: 'token' | null;
  readonly kl_kind: KlEstimator;
  readonly kl_coef: number;
  readonly gamma: number;
  readonly group_ids: readonly string[];
  readonly token_level_rewards: Table;
  readonly loss_mask: Table;
  readonly log_probs: Table;
  readonly old_log_probs: Table;
  readonly ref_log_probs: Table;
  readonly rollout_logprobs: Table;
  readonly expected: {
    readonly advantages: Table;
    readonly normalized_advantages: Table;
    readonly policy_loss: number;
    readonly kl_loss: number;
    readonly total_loss: number;
    readonly grad_log_probs: Table;
  };
}

const tables = (values: ArrayLike<number>, like: Table): number[][] => {
  const starts = lengthsOf(like);
  return like.map((_, row) => Array.from(values).slice(starts[row], starts[row + 1]));
};

eachCase<EndToEndCase>('end_to_end', (given, where) => {
  const { loss_mask: mask, expected } = given;
  const { advantages } = estimated({
    ...given,
    response_mask: mask,
    values: null,
    lambd: 1,
    grpo_norm_by_std: true,
    epsilon: 1e-6,
  });
  closeAll(`${where} advantages`, advantages, flat(expected.advantages), 1e-6);
  const scaled = normalised(given, tables(advantages, mask), mask, mask);
  closeAll(`${where} normalised`, scaled, flat(expected.normalized_advantages), 1e-6);
  const tokens = {
    starts: lengthsOf(mask),
    mask: flat(mask),
    logprobs: flat(given.log_probs),
    old: flat(given.old_log_probs),
    rollout: flat(given.rollout_logprobs),
    advantages: scaled,
  };
  const settings = lossSettingsOf({ off_policy_correction: { tis_ratio_type: given.tis_ratio_type } });
  const policy = policyLoss(policyLosses.get(given.loss), tokens, settings);
  const kl = klLoss({ ...tokens, reference: flat(given.ref_log_probs) }, given.kl_kind, mask.length);
  close(`${where} policy_loss`, policy.loss, expected.policy_loss, 1e-6);
  close(`${where} kl_loss`, kl.value, expected.kl_loss);
  close(`${where} total_loss`, policy.loss + given.kl_coef * kl.value, expected.total_loss, 1e-6);
  const gradient = policy.gradient.map((g, i) => g + given.kl_coef * kl.gradient[i]!);
  closeAll(`${where} gradient`, gradient, flat(expected.grad_log_probs), 1e-6);
});
