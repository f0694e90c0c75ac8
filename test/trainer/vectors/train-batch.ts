/** The training case of the vectors as the learner takes it. */

import type { Learner } from '../../../trainer/learner.ts';
import { type TokenBatch, tokenBatch } from '../../../trainer/model/token-batch.ts';
import type { Expected } from './model-folders.ts';

export function trainBatch({ train }: Expected): TokenBatch {
  return tokenBatch(
    train.input_ids.map((ids, row) => {
      const length = (train.attention_mask[row] ?? []).filter(Boolean).length;
      return { tokens: ids.slice(0, length), mask: (train.loss_mask[row] ?? []).slice(0, length) };
    }),
  );
}

/** One backward pass of the mean cross-entropy; returns the loss. */
export function learn(learner: Learner, batch: TokenBatch): number {
  const tokens = batch.labels.length;
  let loss = 0;
  learner.forwardBackward(batch, false, ({ logprobs }) => {
    loss = -logprobs.reduce((sum, x) => sum + x, 0) / tokens;
    return new Float32Array(tokens).fill(-1 / tokens);
  });
  return loss;
}
