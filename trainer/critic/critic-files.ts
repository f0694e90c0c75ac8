/**
 * Reads a critic's files: the critic saved beside its policy, or the model that a new critic starts from. A critic that
 * is an adapter has PEFT's two files, which hold its whole head (`modules_to_save`). No tensor is created here.
 */

import path from 'node:path';
import type { Checkpoint, OptimizerState } from '../checkpoints/checkpoint.ts';
import {
  readVerifiedConfig,
  readVerifiedOptimizer,
  readVerifiedPolicy,
  verifiedCriticDir,
} from '../checkpoints/verified-checkpoint.ts';
import type { NewCritic, UpdateRequest } from '../update-request.ts';
import { VALUE_MODULE } from '../lora/adapter-config.ts';
import { baseDirectory, type PolicyFiles, readAdapterJson } from '../lora/adapter-files.ts';
import { adapterName, type AdapterWeights } from '../lora/adapter-layout.ts';
import { newAdapter } from '../lora/new-adapter.ts';
import { type ModelConfig, valueConfig } from '../model/config.ts';
import { normals } from '../model/initialize.ts';
import { VALUE_HEAD } from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import { asWeights, type Weights } from '../model/weights.ts';

/** Weights with a value head instead of a vocabulary head; an adapter holds its own value head. */
export interface CriticFiles extends PolicyFiles {
  readonly config: ModelConfig;
  /** True if the adapter is to be merged into the weights, and all weights are trained. */
  readonly isToMerge: boolean;
}

/**
 * `dir`: the critic's own directory. `beside`: a policy's directory; if it has no critic, a new one starts from
 * `begin`.
 */
export type CriticPlace = { readonly dir: string } | { readonly beside: string; readonly begin: NewCritic };

/** The place of an update's critic; `undefined` if the update trains none. */
export function criticPlace({
  fromDir,
  algorithm,
  critic: begin = { base: fromDir, seed: 0 },
}: Pick<UpdateRequest, 'fromDir' | 'algorithm' | 'critic'>): CriticPlace | undefined {
  return algorithm.critic && { beside: fromDir, begin };
}

const HEAD_IN_ADAPTER = adapterName(VALUE_HEAD);
const OF_A_VOCABULARY = /^base_model\.model\.lm_head\./;

/** Normally distributed with standard deviation 1 / (hidden + 1), as in SkyRL. */
function freshHead(hiddenSize: number, seed: number): NamedTensor {
  const data = normals(hiddenSize, `${seed} ${VALUE_HEAD}`).map((x) => x / (hiddenSize + 1));
  return { shape: [1, hiddenSize], data };
}

function withHead(weights: Weights, { shape, data }: NamedTensor): Weights {
  const own = new Map(weights);
  own.delete('lm_head.weight');
  if (!own.has(VALUE_HEAD)) own.set(VALUE_HEAD, { shape: [...shape], data });
  return own;
}

/** An adapter with a value head. `task_type` is null: for any task type, PEFT would expect another head. */
function valueAdapter({ json, tensors }: AdapterWeights, base: string, head: NamedTensor): AdapterWeights {
  const own = [...tensors].filter(([name]) => name !== HEAD_IN_ADAPTER && !OF_A_VOCABULARY.test(name));
  return {
    json: { ...json, base_model_name_or_path: base, task_type: null, modules_to_save: [VALUE_MODULE] },
    tensors: new Map([...own, [HEAD_IN_ADAPTER, head]]),
  };
}

/** The critic's directory; `undefined` if none was saved yet. Errors: `CheckpointTorn`. */
const foundDir = async (place: CriticPlace): Promise<string | undefined> =>
  'dir' in place ? place.dir : verifiedCriticDir(place.beside);

/** A directory's decoder, with or without a value head, and its adapter. `lora` adds a new adapter if there is none. */
async function readDecoder({ base: dir, seed, lora }: NewCritic): Promise<CriticFiles> {
  const config = valueConfig(await readVerifiedConfig(dir));
  const { weights, adapter: known } = await readVerifiedPolicy(dir);
  const head = known?.tensors.get(HEAD_IN_ADAPTER) ?? weights.get(VALUE_HEAD) ?? freshHead(config.hiddenSize, seed);
  const adapter = known ?? (lora && newAdapter(config, lora, dir, `critic ${seed}`));
  const base = known === undefined ? path.resolve(dir) : await baseDirectory(dir, known.json);
  return {
    config,
    weights: withHead(weights, head),
    adapter: adapter && valueAdapter(adapter, base, head),
    isToMerge: false,
  };
}

/**
 * The saved critic, else a new one. Errors: `CheckpointTorn`, `UnsupportedModel`, `UnsupportedAdapter`,
 * `BadSafetensors`.
 */
export async function readCritic(place: CriticPlace): Promise<CriticFiles> {
  const dir = await foundDir(place);
  const begin = 'begin' in place ? place.begin : { base: place.dir, seed: 0 };
  if (dir !== undefined) return readDecoder({ ...begin, base: dir });
  const files = await readDecoder(begin);
  return { ...files, isToMerge: files.adapter !== undefined && begin.lora === undefined };
}

/** The optimizer's moments; `undefined` if the trained part is new. Errors: `CheckpointTorn`. */
export async function readCriticMoments(place: CriticPlace): Promise<OptimizerState | undefined> {
  const dir = await foundDir(place);
  if (dir === undefined) return undefined;
  // A fully trained critic's moments do not fit a new adapter on top of it.
  const isNew = 'begin' in place && place.begin.lora !== undefined && (await readAdapterJson(dir)) === undefined;
  return isNew ? undefined : readVerifiedOptimizer(dir);
}

/**
 * The saved critic, to be written unchanged beside its policy's next version; `undefined` if none was saved yet.
 * Errors: as `readCritic`.
 */
export async function carriedCritic(place: CriticPlace, version: number): Promise<Checkpoint | undefined> {
  if ((await foundDir(place)) === undefined) return undefined;
  const [{ config, weights, adapter }, optimizer] = [await readCritic(place), await readCriticMoments(place)];
  return {
    weights: adapter === undefined ? weights : asWeights(adapter.tensors),
    adapter: adapter?.json,
    optimizer,
    step: version,
    version,
    fromDir: undefined,
    config,
  };
}
