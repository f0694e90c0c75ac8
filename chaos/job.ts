/** The job that is disturbed: swe-mini from the starter policy, in steps of a few seconds. */

import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { resolveRunConfig } from '../config/run-config.ts';
import type { RunConfig } from '../protocol/run-config.ts';

/** The learning rate is constant, so that the number of steps changes no step. */
export function jobConfig(run: string, seed: number, steps: number, dir: string): RunConfig {
  return resolveRunConfig(
    {
      run,
      dir: 'runs',
      seed,
      steps,
      policy: { base: join(packageRoot, 'examples', 'starter') },
      task: { name: 'swe-mini', train: 4000 },
      batch: { tasks: 3, samples: 4 },
      agent: { maxTurns: 5, maxContextTokens: 700, toolTimeoutSeconds: 20 },
      sampling: { temperature: 1, maxTokens: 120 },
      dispatcher: { type: 'bounded', maxParallelAgents: 12 },
      algorithm: {
        advantage: 'grpo',
        normaliseByStd: false,
        learningRate: 2e-4,
        schedule: 'constant',
        epochs: 1,
        minibatches: 1,
      },
      evaluation: { tasks: 4, greedy: false },
    },
    dir,
  );
}
