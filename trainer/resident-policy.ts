/** A policy in training with its optimizer, and the directory that it equals, so that the next update need not read it. */

import { AdamW } from './adamw.ts';
import type { NewLora } from './engine.ts';
import { Learner } from './learner.ts';
import { newAdapter } from './lora/new-adapter.ts';
import type { AdapterJson } from './lora/adapter-config.ts';
import { readModelConfig } from './model/describe-policy.ts';
import type { Weights } from './model/weights.ts';
import { stampOf } from './policy-files.ts';
import { readVerifiedOptimizer, readVerifiedPolicy } from './verified-checkpoint.ts';

export interface Trainee {
  readonly learner: Learner;
  readonly optimizer: AdamW;
}

/**
 * Reads weights, and moments where there are some. An adapter is trained as one; `lora` puts a new one beside other
 * policies. Errors: `UnsupportedModel`, `UnsupportedAdapter`, `WrongWeights`, `BadSafetensors`, `CheckpointTorn`.
 */
export async function loadTrainee(dir: string, lora?: NewLora): Promise<Trainee> {
  const [config, files, state] = await Promise.all([readModelConfig(dir), readVerifiedPolicy(dir), readVerifiedOptimizer(dir)]);
  const fresh = lora === undefined || files.adapter !== undefined ? undefined : newAdapter(config, lora, dir, lora.seed);
  const learner = new Learner(config, files.weights, files.adapter ?? fresh);
  const { layout } = learner.policy.trainable;
  // The moments of a whole policy are not those of an adapter beside it.
  const known = fresh === undefined ? state : undefined;
  const optimizer = known === undefined ? AdamW.fresh(layout) : AdamW.load(layout, known.moments, known.steps);
  return { learner, optimizer };
}

/** What a checkpoint holds of a policy: its weights, or its adapter's alone. */
export function trainedPart({ policy }: Learner): { weights: Weights; adapter: AdapterJson | undefined } {
  return { weights: policy.adapter?.download() ?? policy.download(), adapter: policy.adapter?.json };
}

export function disposeTrainee({ learner, optimizer }: Trainee): void {
  learner.dispose();
  optimizer.dispose();
}

/** At most one policy: the one that was written last. */
export class ResidentPolicy {
  #held: { readonly dir: string; readonly stamp: string; readonly trainee: Trainee } | undefined;

  /** The trainee of `dir`; it is the caller's from now on, until `keep`. */
  async take(dir: string, lora?: NewLora): Promise<Trainee> {
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined) return loadTrainee(dir, lora);
    if (held.dir === dir && (await stampOf(dir).catch(() => '')) === held.stamp) return held.trainee;
    disposeTrainee(held.trainee);
    return loadTrainee(dir, lora);
  }

  /** `dir` was written from `trainee` just now. */
  async keep(dir: string, trainee: Trainee): Promise<void> {
    const stamp = await stampOf(dir);
    if (this.#held !== undefined) disposeTrainee(this.#held.trainee);
    this.#held = { dir, stamp, trainee };
  }
}
