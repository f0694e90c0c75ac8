/** The job that is disturbed: a run of the caller's, or swe-mini from the starter policy, in steps of a few seconds. */

import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { UserInputError } from '../client/errors.ts';
import { resolveRunConfig } from '../config/run-config.ts';
import type { RunConfig } from '../protocol/run-config.ts';

export interface ChaosJob {
  readonly config: RunConfig;
  /** False if none of its tasks has a sandbox: then there is none to kill. */
  readonly hasSandboxes: boolean;
}

/** The learning rate is constant, so that the number of steps changes no step. */
export function jobConfig(run: string, seed: number, steps: number, dir: string, job?: ChaosJob): RunConfig {
  if (job !== undefined) {
    const { config } = job;
    return {
      ...config,
      run,
      dir: join(dir, 'runs'),
      seed,
      steps,
      algorithm: { ...config.algorithm, schedule: 'constant' },
    };
  }
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

/** Errors: `UserInputError` for a run whose weights are not the same twice, or that may pause. */
export function checkJob({ policy, training, judges, budget }: RunConfig): void {
  const mode = training?.mode ?? 'sync';
  if (mode !== 'sync')
    throw new UserInputError(
      'training.mode',
      mode,
      'give sync (--set training.mode=sync): only its runs have the same bits',
    );
  if (policy.backend !== 'embedded')
    throw new UserInputError(
      'policy.backend',
      policy.backend,
      'give embedded: the weights that other backends make cannot be compared here',
    );
  const [judge] = Object.keys(judges ?? {});
  if (judge !== undefined)
    throw new UserInputError('judges', judge, 'give tasks that ask none: a judge does not answer alike twice');
  if (budget !== undefined)
    throw new UserInputError(
      'budget',
      budget,
      'leave it out (--set budget=null): a run that pauses by itself never ends',
    );
}
