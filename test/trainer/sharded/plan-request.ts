/** An update in shards, two rounds of it, for tests of its plan. */

import path from 'node:path';
import type { PlanRequest } from '../../../trainer/update-request.ts';
import { asSampled, qwen3Dir } from '../tiny-policy.ts';

export async function planRequest(dir: string, shards: number): Promise<PlanRequest> {
  const sampled = await asSampled(qwen3Dir, [40, 23, 12, 33]);
  return {
    dir: path.join(dir, 'update'),
    shards,
    fromDir: qwen3Dir,
    toDir: path.join(dir, 'v1'),
    toVersion: 1,
    data: sampled.map((one, i) => ({ ...one, advantage: i % 2 === 0 ? 1 : -1 })),
    algorithm: {
      learningRate: 1e-3,
      epochs: 2,
      minibatches: 1,
      maxGradNorm: 1,
      weightDecay: 0,
      betas: [0.9, 0.95],
      epsilon: 1e-8,
      microBatchTokens: 96,
    },
  };
}
