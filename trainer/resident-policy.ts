/** A policy in training with its optimizer, and the directory that it equals, so that the next update need not read it. */

import { AdamW } from './adamw.ts';
import { Learner } from './learner.ts';
import { readModelConfig } from './model/describe-policy.ts';
import { stampOf } from './policy-files.ts';
import { loadVerifiedWeights, readVerifiedOptimizer } from './verified-checkpoint.ts';

export interface Trainee {
  readonly learner: Learner;
  readonly optimizer: AdamW;
}

/** Reads weights, and moments where there are some. Errors: `UnsupportedModel`, `WrongWeights`, `BadSafetensors`, `CheckpointTorn`. */
export async function loadTrainee(dir: string): Promise<Trainee> {
  const [config, weights, state] = await Promise.all([readModelConfig(dir), loadVerifiedWeights(dir), readVerifiedOptimizer(dir)]);
  const learner = new Learner(config, weights);
  const { layout } = learner.policy;
  const optimizer = state === undefined ? AdamW.fresh(layout) : AdamW.load(layout, state.moments, state.steps);
  return { learner, optimizer };
}

export function disposeTrainee({ learner, optimizer }: Trainee): void {
  learner.dispose();
  optimizer.dispose();
}

/** At most one policy: the one that was written last. */
export class ResidentPolicy {
  #held: { readonly dir: string; readonly stamp: string; readonly trainee: Trainee } | undefined;

  /** The trainee of `dir`; it is the caller's from now on, until `keep`. */
  async take(dir: string): Promise<Trainee> {
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined) return loadTrainee(dir);
    if (held.dir === dir && (await stampOf(dir).catch(() => '')) === held.stamp) return held.trainee;
    disposeTrainee(held.trainee);
    return loadTrainee(dir);
  }

  /** `dir` was written from `trainee` just now. */
  async keep(dir: string, trainee: Trainee): Promise<void> {
    const stamp = await stampOf(dir);
    if (this.#held !== undefined) disposeTrainee(this.#held.trainee);
    this.#held = { dir, stamp, trainee };
  }
}
