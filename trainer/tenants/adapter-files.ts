/**
 * An adapter of a tenant as a directory: PEFT's two files, the base's configuration and tokenizer, and for training its
 * moments and gradient. It is a policy directory as runs write them, complete or missing.
 */

import { createHash } from 'node:crypto';
import { realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { UserInputError } from '../../protocol/user-input-error.ts';
import { writeCheckpoint } from '../checkpoints/checkpoint.ts';
import { filesOf } from '../checkpoints/policy-files.ts';
import { openVerifiedPolicy, readVerifiedOptimizer } from '../checkpoints/verified-checkpoint.ts';
import { baseDirectory, readAdapterJson } from '../lora/adapter-files.ts';
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { type Layout, packFlat, unpackFlat } from '../model/parameters.ts';
import type { NamedTensor } from '../model/safetensors.ts';
import { asWeights, weightsDigest } from '../model/weights.ts';
import type { SavedAdapter } from './definition.ts';

const GRADIENT = 'gradient.';

/** What training needs beside the adapter. */
export interface TrainingState {
  readonly steps: number;
  /** As `AdamW.save` names them. */
  readonly moments: ReadonlyMap<string, NamedTensor>;
  /** [layout.size]; `undefined`: there is none. */
  readonly gradient: Float32Array | undefined;
}

/** Moments and gradient in one file; the gradient's tensors have names of their own. */
function stored(layout: Layout, { steps, moments, gradient }: TrainingState) {
  const sums = gradient === undefined ? [] : unpackFlat(layout, gradient, GRADIENT);
  return { steps, moments: new Map<string, NamedTensor>([...moments, ...sums]) };
}

async function bytesOf(dir: string): Promise<number> {
  const sizes = (await filesOf(dir)).map(async (name) => (await stat(path.join(dir, name))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

/**
 * Writes `dir`, which must not exist or must hold the same already. `training`: `undefined` leaves it out. Errors:
 * `UserInputError` if `dir` holds something else; those of the disk.
 */
export async function saveAdapter(
  dir: string,
  base: string,
  { json, tensors }: AdapterWeights,
  layout: Layout,
  training: TrainingState | undefined,
): Promise<SavedAdapter> {
  const optimizer = training && stored(layout, training);
  const parts = [
    weightsDigest(tensors),
    JSON.stringify(json),
    optimizer && [optimizer.steps, weightsDigest(optimizer.moments)],
  ];
  const input = `tenant ${createHash('sha256').update(JSON.stringify(parts)).digest('hex')}`;
  const step = training?.steps ?? 0;
  const checkpoint = {
    weights: asWeights(tensors),
    adapter: json,
    optimizer,
    step,
    version: step,
    fromDir: base,
    input,
  };
  try {
    const { record } = await writeCheckpoint(dir, checkpoint);
    return { sha256: record.sha256, bytes: await bytesOf(dir) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST' && code !== 'ENOTDIR') throw error;
    throw new UserInputError('dir', dir, 'something else is there: give a new directory', { cause: error });
  }
}

const places = (dir: string): Promise<string> => realpath(dir);

async function checkBase(dir: string, base: string): Promise<void> {
  const json = await readAdapterJson(dir);
  if (json === undefined) throw new UserInputError('dir', dir, 'give the directory of a LoRA adapter');
  const own = await baseDirectory(dir, json);
  if ((await places(own)) !== (await places(base)))
    throw new UserInputError('dir', dir, `its base is ${own}: load it into an adapter of that model, not of ${base}`);
}

/** Errors: `UserInputError` if `dir` has no adapter of `base`; those of `openVerifiedPolicy`. */
export async function loadAdapter(dir: string, base: string): Promise<AdapterWeights> {
  await checkBase(dir, base);
  const { weights, adapter } = await openVerifiedPolicy(dir);
  if (adapter === undefined) throw new UserInputError('dir', dir, 'give the directory of a LoRA adapter');
  // Copies of the base's head, which PEFT writes, are compared while the base is read.
  if ([...adapter.tensors.keys()].some((name) => name.includes('lm_head'))) for await (const _piece of weights);
  return adapter;
}

/** Errors: `UserInputError` if `dir` was saved without it; `CheckpointTorn`, `WrongWeights`. */
export async function loadTraining(dir: string, layout: Layout): Promise<TrainingState> {
  const state = await readVerifiedOptimizer(dir);
  if (state === undefined)
    throw new UserInputError(
      'dir',
      dir,
      'it has no optimizer state: load it without the optimizer, or save it for training',
    );
  const { steps, moments } = state;
  const has = [...moments.keys()].some((name) => name.startsWith(GRADIENT));
  return { steps, moments, gradient: has ? packFlat(layout, moments, GRADIENT) : undefined };
}
