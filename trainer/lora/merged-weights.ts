/** An adapter's policy as plain weights. */

import type { ModelConfig } from '../model/config.ts';
import { Policy } from '../model/policy.ts';
import type { Weights } from '../model/weights.ts';
import { readVerifiedPolicy } from '../checkpoints/verified-checkpoint.ts';

/** The weights that the policy computes with, whether it is an adapter or not: the same bits as in training. */
export async function loadMergedWeights(dir: string, config: ModelConfig): Promise<Weights> {
  const { weights, adapter } = await readVerifiedPolicy(dir);
  if (adapter === undefined) return weights;
  const policy = new Policy(config, weights, adapter);
  try {
    return policy.merged();
  } finally {
    policy.dispose();
  }
}
