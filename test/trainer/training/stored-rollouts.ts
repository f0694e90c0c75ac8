/** Stored rollouts of the tiny policy: log-probabilities near the policy's, rewards by group. */

import type { Datum } from '../../../trainer/update-request.ts';
import type { UpdateSettings } from '../../../protocol/algorithm.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import { loadLearner, qwen3Dir, someTokens } from '../tiny-policy.ts';

export const settings: UpdateSettings = {
  learningRate: 1e-3,
  epochs: 1,
  minibatches: 2,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 64,
};

/**
 * Two groups of two rollouts; the last rollout has two sequences. Recorded log-probabilities differ from the policy's
 * by `noise`.
 */
export async function storedRollouts(noise = 0.05): Promise<Datum[]> {
  const learner = await loadLearner(qwen3Dir);
  const rollouts = ['a/0', 'a/1', 'b/0', 'b/1', 'b/1'];
  const data = rollouts.map((rollout, i) => {
    const tokens = someTokens(14 + 3 * i, i + 1);
    const mask = tokens.map((_, t) => (t > 4 && t % 3 !== 0 ? 1 : 0));
    const batch = tokenBatch([{ tokens, mask }]);
    const logprobs = tokens.map(() => 0);
    for (const [at, value] of learner.forward(batch, false).logprobs.entries()) {
      logprobs[batch.indexOf[at]!] = Math.min(-1e-3, value + noise * Math.sin(7 * at + i));
    }
    return { tokens, mask, logprobs, credit: { reward: [1, 0, 0, 0.5, 0.5][i]!, group: rollout[0]!, rollout } };
  });
  learner.dispose();
  return data;
}
