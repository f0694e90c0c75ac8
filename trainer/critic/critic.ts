/** A critic with its optimizer: read from its policy's folder, or created from a decoder with a new head. */

import type { Checkpoint } from '../checkpoints/checkpoint.ts';
import type { Tensor } from '../model/layers/kernels.ts';
import { Policy } from '../model/policy.ts';
import type { Weights } from '../model/weights.ts';
import { AdamW, type AdamWSettings } from '../optimizer.ts';
import { type CriticFiles, type CriticPlace, readCritic, readCriticMoments } from './critic-files.ts';
import { ValueModel } from './value-model.ts';

export interface Critic {
  readonly model: ValueModel;
  /** `undefined` until the critic is trained: its moments are twice the critic's size. */
  optimizer: AdamW | undefined;
}

function mergedWeights({ config, weights, adapter }: CriticFiles): Weights {
  const policy = new Policy(config, weights, adapter);
  try {
    return policy.merged();
  } finally {
    policy.dispose();
  }
}

/**
 * Loads a critic without its moments. Errors: `CheckpointTorn`, `UnsupportedModel`, `UnsupportedAdapter`,
 * `WrongWeights`, `BadSafetensors`.
 */
export async function loadCritic(place: CriticPlace): Promise<Critic> {
  const files = await readCritic(place);
  const { config, weights, adapter, isToMerge } = files;
  return {
    model: isToMerge ? new ValueModel(config, mergedWeights(files)) : new ValueModel(config, weights, adapter),
    optimizer: undefined,
  };
}

/**
 * Loads the critic's moments from `place`, or creates new ones if it has none. Errors: `CheckpointTorn`,
 * `WrongWeights`.
 */
export async function loadMoments(critic: Critic, place: CriticPlace): Promise<void> {
  const { layout } = critic.model.decoder.trainable;
  const known = await readCriticMoments(place);
  critic.optimizer = known === undefined ? AdamW.fresh(layout) : AdamW.load(layout, known.moments, known.steps);
}

function optimizerOf({ optimizer }: Critic): AdamW {
  if (optimizer === undefined) throw new Error('a critic was loaded without its optimizer');
  return optimizer;
}

/** One step along `gradient`, which is disposed; returns its norm before clipping. Errors: `TrainingDiverged`. */
export function stepCritic(critic: Critic, gradient: Tensor, settings: AdamWSettings): number {
  return optimizerOf(critic).apply(critic.model.decoder.trainable, gradient, settings);
}

/** The checkpoint to write: all weights, or the adapter alone. */
export function criticCheckpoint(critic: Critic, version: number): Checkpoint {
  const { decoder } = critic.model;
  const optimizer = optimizerOf(critic);
  return {
    weights: decoder.adapter?.download() ?? decoder.download(),
    adapter: decoder.adapter?.json,
    optimizer: { steps: optimizer.steps, moments: optimizer.save(decoder.trainable.layout) },
    step: version,
    version,
    fromDir: undefined,
    config: decoder.config,
  };
}

export function disposeCritic({ model, optimizer }: Critic): void {
  model.dispose();
  optimizer?.dispose();
}
