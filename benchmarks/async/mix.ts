/** The runs of `bench async`: the time of each rollout and each update. Each mix has its own unit. */

import { resolveRunConfig } from '../../config/run-config.ts';
import { noiseOf } from '../../trainer/sampler/noise.ts';
import type { OpenedConfig, TrainingSettings } from '../../protocol/run-config.ts';

export interface AsyncMix {
  readonly name: string;
  readonly steps: number;
  /** Groups per step, and rollouts per group. */
  readonly groups: number;
  readonly samples: number;
  /** The most rollouts at once. */
  readonly places: number;
  /** A rollout's time: log-normal, cut off at `longest` by its time limit. */
  readonly median: number;
  readonly sigma: number;
  readonly longest: number;
  readonly update: number;
}

const SHAPE = { steps: 20, groups: 8, samples: 8, places: 64, median: 10, longest: 200 };

/** An update takes a third of a rollout's median. Tails as of agents: the slowest of 64 takes 5, 11, 26 medians. */
export const MIXES: readonly AsyncMix[] = [
  { ...SHAPE, name: 'light-tailed', sigma: 0.7, update: 3 },
  { ...SHAPE, name: 'long-tailed', sigma: 1, update: 3 },
  { ...SHAPE, name: 'long-tailed, long updates', sigma: 1, update: 30 },
  { ...SHAPE, name: 'heavy-tailed', sigma: 1.35, update: 3 },
];

/** The same rollout takes the same time in every mode. */
export function durationOf({ median, sigma, longest }: AsyncMix, task: string, sample: number): number {
  const noise = noiseOf(`duration ${task} ${sample}`);
  // The Box–Muller transform.
  const normal = Math.sqrt(-2 * Math.log(1 - noise(0))) * Math.cos(2 * Math.PI * noise(1));
  return Math.min(longest, median * Math.exp(sigma * normal));
}

export const MODES = ['sync', 'one-step-off', 'async'] as const satisfies ReadonlyArray<TrainingSettings['mode']>;

export function configOf(mix: AsyncMix, mode: TrainingSettings['mode'], maxStalenessSteps: number): OpenedConfig {
  const config = resolveRunConfig(
    {
      run: `${mix.name.replaceAll(/[^a-z]+/g, '-')}-${mode}`,
      policy: { base: '/none' },
      steps: mix.steps,
      task: { name: 't' },
      batch: { tasks: mix.groups, samples: mix.samples },
      dispatcher: { type: 'bounded', maxParallelAgents: mix.places },
      training: { mode, ...(mode === 'async' ? { maxStalenessSteps } : {}) },
      evaluation: { tasks: 1, greedy: false },
    },
    '/',
  );
  const train = [{ source: 't', split: 'train', count: mix.groups * mix.steps, weight: 1 }];
  return { ...config, opened: { catalog: 'sha256:', train, heldOut: [{ source: 't', split: 'held-out', count: 1 }] } };
}
