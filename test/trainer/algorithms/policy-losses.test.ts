/** Every policy loss against SkyRL's own functions: value, gradient and metrics, in float64. */

import { policyLoss } from '../../../trainer/algorithms/losses/policy-loss.ts';
import { policyLosses } from '../../../trainer/algorithms/losses/registry.ts';
import { lossSettingsOf } from './skyrl-settings.ts';
import {
  close,
  closeAll,
  eachCase,
  flat,
  lengthsOf,
  mustFail,
  type Named,
  sameMetrics,
  type Table,
} from './vectors.ts';

interface LossCase extends Named {
  readonly loss: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly log_probs: Table;
  readonly old_log_probs: Table;
  readonly rollout_logprobs: Table | null;
  readonly advantages: Table;
  readonly loss_mask: Table;
  readonly expected: {
    readonly loss: number;
    readonly grad_log_probs: Table;
    readonly metrics: Readonly<Record<string, number | null>>;
  };
}

function computed(given: LossCase) {
  const tokens = {
    starts: lengthsOf(given.loss_mask),
    mask: flat(given.loss_mask),
    logprobs: flat(given.log_probs),
    old: flat(given.old_log_probs),
    rollout: given.rollout_logprobs === null ? undefined : flat(given.rollout_logprobs),
    advantages: flat(given.advantages),
  };
  return policyLoss(policyLosses.get(given.loss), tokens, lossSettingsOf(given.config));
}

eachCase<LossCase>('policy_losses', (given, where) => {
  if (mustFail(where, given.expected, () => computed(given))) return;
  const got = computed(given);
  close(`${where} loss`, got.loss, given.expected.loss);
  closeAll(`${where} gradient`, got.gradient, flat(given.expected.grad_log_probs));
  sameMetrics(where, got.metrics, given.expected.metrics);
});
