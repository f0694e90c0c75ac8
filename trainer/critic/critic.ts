/** A critic with its optimizer: read from beside its policy, or begun as a decoder with a fresh head; written back beside it. */

import { AdamW } from '../optimizer/adamw.ts';
import type { Checkpoint } from '../checkpoints/checkpoint.ts';
import type { NewCritic } from '../engine.ts';
import { mergedWeights } from '../lora/merged-weights.ts';
import type { ModelConfig } from '../model/config.ts';
import { normals } from '../model/initialize.ts';
import { VALUE_HEAD } from '../model/parameters.ts';
import { gathered, type Weights } from '../model/weights.ts';
import { readVerifiedConfig, readVerifiedOptimizer, verifiedCriticDir } from '../checkpoints/verified-checkpoint.ts';
import { ValueModel } from './value-model.ts';

export interface Critic {
  readonly model: ValueModel;
  readonly optimizer: AdamW;
}

/** Normal with deviation 1 / (hidden + 1), as SkyRL draws it. */
function freshHead(hiddenSize: number, seed: number): { shape: number[]; data: Float32Array } {
  const data = normals(hiddenSize, `${seed} ${VALUE_HEAD}`).map((x) => x / (hiddenSize + 1));
  return { shape: [1, hiddenSize], data };
}

/** A directory's decoder, an adapter added to it, and its value head, which is drawn where there is none. */
async function beginningOf({ base, seed }: NewCritic, config: ModelConfig): Promise<Weights> {
  const weights = await gathered(await mergedWeights(base, config));
  weights.delete('lm_head.weight');
  if (!weights.has(VALUE_HEAD)) weights.set(VALUE_HEAD, freshHead(config.hiddenSize, seed));
  return weights;
}

/**
 * The critic that was written with the policy in `fromDir`, moments included; else the one that `begin` says. Errors:
 * `CheckpointTorn`, `UnsupportedModel`, `WrongWeights`, `BadSafetensors`.
 */
export async function loadCritic(fromDir: string, begin: NewCritic): Promise<Critic> {
  const own = await verifiedCriticDir(fromDir);
  const dir = own ?? begin.base;
  const config = await readVerifiedConfig(dir);
  const weights = await beginningOf({ ...begin, base: dir }, config);
  const state = own === undefined ? undefined : await readVerifiedOptimizer(own);
  const model = new ValueModel(config, weights);
  const { layout } = model.decoder;
  return { model, optimizer: state === undefined ? AdamW.fresh(layout) : AdamW.load(layout, state.moments, state.steps) };
}

/** What is written beside the policy's version. */
export function criticCheckpoint({ model: { decoder }, optimizer }: Critic, version: number): Checkpoint {
  return {
    weights: decoder.download(),
    optimizer: { steps: optimizer.steps, moments: optimizer.save(decoder.layout) },
    step: version,
    version,
    fromDir: undefined,
    config: decoder.config,
  };
}

export function disposeCritic({ model, optimizer }: Critic): void {
  model.dispose();
  optimizer.dispose();
}
