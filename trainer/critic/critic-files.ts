/**
 * A critic as files: the one that was written beside its policy, or what it begins as. As an adapter it is PEFT's two
 * files, its head kept whole among them (`modules_to_save`). No tensor is made here.
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

/** With a value head in the place of a vocabulary's; an adapter has its own. */
export interface CriticFiles extends PolicyFiles {
  readonly config: ModelConfig;
  /** It begins as the weights with the adapter added, and is trained whole. */
  readonly isToMerge: boolean;
}

/** In a directory of its own; or beside a policy, where it begins if none is there. */
export type CriticPlace = { readonly dir: string } | { readonly beside: string; readonly begin: NewCritic };

/** Where an update's critic is, or what it begins as; `undefined` where it trains none. */
export function criticPlace({
  fromDir,
  algorithm,
  critic: begin = { base: fromDir, seed: 0 },
}: Pick<UpdateRequest, 'fromDir' | 'algorithm' | 'critic'>): CriticPlace | undefined {
  return algorithm.critic && { beside: fromDir, begin };
}

const HEAD_IN_ADAPTER = adapterName(VALUE_HEAD);
const OF_A_VOCABULARY = /^base_model\.model\.lm_head\./;

/** Normal with deviation 1 / (hidden + 1), as SkyRL draws it. */
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

/** An adapter as a critic's: with a `task_type` PEFT would look for another head. */
function valueAdapter({ json, tensors }: AdapterWeights, base: string, head: NamedTensor): AdapterWeights {
  const own = [...tensors].filter(([name]) => name !== HEAD_IN_ADAPTER && !OF_A_VOCABULARY.test(name));
  return {
    json: { ...json, base_model_name_or_path: base, task_type: null, modules_to_save: [VALUE_MODULE] },
    tensors: new Map([...own, [HEAD_IN_ADAPTER, head]]),
  };
}

/** Where there is one already; `undefined` where it is yet to begin. Errors: `CheckpointTorn`. */
const foundDir = async (place: CriticPlace): Promise<string | undefined> =>
  'dir' in place ? place.dir : verifiedCriticDir(place.beside);

/** A directory's decoder, with or without a value head, and its adapter; `lora` puts a new one beside a decoder without. */
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
 * The critic that is there, else what it begins as. Errors: `CheckpointTorn`, `UnsupportedModel`, `UnsupportedAdapter`,
 * `BadSafetensors`.
 */
export async function readCritic(place: CriticPlace): Promise<CriticFiles> {
  const dir = await foundDir(place);
  const begin = 'begin' in place ? place.begin : { base: place.dir, seed: 0 };
  if (dir !== undefined) return readDecoder({ ...begin, base: dir });
  const files = await readDecoder(begin);
  return { ...files, isToMerge: files.adapter !== undefined && begin.lora === undefined };
}

/** `undefined` where what is trained of it has never been trained. Errors: `CheckpointTorn`. */
export async function readCriticMoments(place: CriticPlace): Promise<OptimizerState | undefined> {
  const dir = await foundDir(place);
  if (dir === undefined) return undefined;
  // The moments of a whole critic are not those of an adapter beside it.
  const isNew = 'begin' in place && place.begin.lora !== undefined && (await readAdapterJson(dir)) === undefined;
  return isNew ? undefined : readVerifiedOptimizer(dir);
}

/** The critic that is there, as what is written beside its policy's next version; `undefined` where it is yet to begin. Errors: as `readCritic`. */
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
