/**
 * Policies as they are read for sampling or training: what does not match the digest that was recorded when it was
 * written is torn, and is never used. A directory without a record of ours is taken as it is.
 */

import path from 'node:path';
import {
  type CheckpointRecord,
  criticFolder,
  type OptimizerState,
  readCheckpointRecord,
  readOptimizerState,
} from './checkpoint.ts';
import { checkedAgainst, withoutBaseCopies } from '../lora/base-copies.ts';
import { adapterFile, baseDirectory, type PolicyFiles, readAdapterJson, withFixedBase } from '../lora/adapter-files.ts';
import { BadSafetensors, readSafetensors } from '../model/safetensors.ts';
import type { ModelConfig } from '../model/config.ts';
import { readModelConfig } from '../model/describe-policy.ts';
import {
  gathered,
  type NamedPiece,
  readWeights,
  type WeightPieces,
  type Weights,
  weightsDigest,
  WeightsHash,
} from '../model/weights.ts';

/** A checkpoint that is not what was written: cut short, or with other bytes. */
export class CheckpointTorn extends Error {
  override readonly name = 'CheckpointTorn';
  readonly dir: string;

  constructor(dir: string, problem: string, options?: ErrorOptions) {
    super(
      `The checkpoint ${dir} is torn (${problem}) and is not used: bring its files back from a copy, or go on from another checkpoint`,
      options,
    );
    this.dir = dir;
  }
}

function isDamage(error: unknown): error is Error {
  return (
    error instanceof BadSafetensors ||
    error instanceof SyntaxError ||
    (error instanceof Error && 'code' in error && error.code === 'ENOENT')
  );
}

/** What is thrown for an error of reading a checkpoint. */
function damaged(dir: string, error: unknown): unknown {
  return isDamage(error) ? new CheckpointTorn(dir, error.message, { cause: error }) : error;
}

/** What `read` reads of a directory that was there. Errors: `CheckpointTorn`; those of `read` that are no damage. */
export async function intact<T>(dir: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw damaged(dir, error);
  }
}

/** `undefined` where there is none. Errors: `CheckpointTorn`. */
export async function readVerifiedRecord(dir: string): Promise<CheckpointRecord | undefined> {
  const record = await intact(dir, () => readCheckpointRecord(dir));
  if (record !== undefined && typeof record.sha256 !== 'string')
    throw new CheckpointTorn(dir, 'longhaul.json has no sha256');
  return record;
}

/** A policy's shape. Errors: `CheckpointTorn`; those of `readModelConfig` for a directory without a record. */
export async function readVerifiedConfig(dir: string): Promise<ModelConfig> {
  const read = () => readModelConfig(dir);
  return (await readVerifiedRecord(dir)) === undefined ? read() : intact(dir, read);
}

/** Damage that is found while the pieces pass by is the checkpoint's. */
async function* intactPieces(dir: string, pieces: AsyncIterable<NamedPiece>): AsyncGenerator<NamedPiece> {
  try {
    yield* pieces;
  } catch (error) {
    throw damaged(dir, error);
  }
}

/**
 * A directory's own weights; where they have a record, the last piece comes and then `CheckpointTorn` where they are
 * others: who made something of them must not use it before they have ended. Errors: `CheckpointTorn`; `BadSafetensors`
 * for a directory without a record.
 */
async function* verifiedWeights(dir: string): AsyncGenerator<NamedPiece> {
  const record = await readVerifiedRecord(dir);
  if (record === undefined) return yield* readWeights(dir);
  const hash = new WeightsHash();
  for await (const piece of intactPieces(dir, readWeights(dir))) {
    hash.add(piece);
    yield piece;
  }
  const actual = hash.digest();
  if (actual !== record.sha256) throw new CheckpointTorn(dir, `its weights hash to ${actual}, not to ${record.sha256}`);
}

/** Errors: those of `verifiedWeights`. */
export const loadVerifiedWeights = (dir: string): Promise<Weights> => gathered(verifiedWeights(dir));

/** Weights that are read when they are asked for, and only then. */
export interface PolicyPieces {
  readonly weights: WeightPieces;
  readonly adapter: PolicyFiles['adapter'];
}

/**
 * The policy's weights, or its adapter and the base's. Errors, some of them while the weights pass by: `CheckpointTorn`,
 * `UnsupportedAdapter`, `BadSafetensors`.
 */
export async function openVerifiedPolicy(dir: string): Promise<PolicyPieces> {
  const json = await intact(dir, () => readAdapterJson(dir));
  if (json === undefined) return { weights: verifiedWeights(dir), adapter: undefined };
  const record = await readVerifiedRecord(dir);
  const read = () => readSafetensors(path.join(dir, adapterFile));
  const tensors = await (record === undefined ? read() : intact(dir, read));
  const actual = record === undefined ? undefined : weightsDigest(tensors);
  if (actual !== record?.sha256)
    throw new CheckpointTorn(dir, `its adapter hashes to ${actual}, not to ${record?.sha256}`);
  const base = await baseDirectory(dir, json);
  const { tensors: own, copies } = withoutBaseCopies(tensors);
  const weights = copies.size === 0 ? verifiedWeights(base) : checkedAgainst(verifiedWeights(base), copies);
  return { weights, adapter: { json: withFixedBase(dir, json, base), tensors: own } };
}

/** The same in memory. Errors: those of `openVerifiedPolicy`. */
export async function readVerifiedPolicy(dir: string): Promise<PolicyFiles> {
  const { weights, adapter } = await openVerifiedPolicy(dir);
  return { weights: await gathered(weights), adapter };
}

/** `undefined` where the policy has never been trained here. Errors: `CheckpointTorn`. */
export async function readVerifiedOptimizer(dir: string): Promise<OptimizerState | undefined> {
  const expected = (await readVerifiedRecord(dir))?.optimizer?.sha256;
  const state = await intact(dir, () => readOptimizerState(dir));
  const actual = state && expected !== undefined ? weightsDigest(state.moments) : expected;
  if (actual !== expected)
    throw new CheckpointTorn(
      path.join(dir, 'optimizer.safetensors'),
      `its moments hash to ${actual}, not to ${expected}`,
    );
  return state;
}

/**
 * Directory of the critic that was written with a policy; `undefined` where none was. Its weights and moments are held to
 * its own record, and that one to the policy's. Errors: `CheckpointTorn`.
 */
export async function verifiedCriticDir(dir: string): Promise<string | undefined> {
  const expected = (await readVerifiedRecord(dir))?.critic?.sha256;
  if (expected === undefined) return undefined;
  const own = path.join(dir, criticFolder);
  const actual = (await readVerifiedRecord(own))?.sha256;
  if (actual !== expected)
    throw new CheckpointTorn(own, `its record says ${actual ?? 'nothing'}, that of the policy ${expected}`);
  return own;
}

/** As sampling and training would. */
async function readThrough(dir: string): Promise<void> {
  for await (const _piece of (await openVerifiedPolicy(dir)).weights);
  await readVerifiedOptimizer(dir);
}

/** Holds a checkpoint to the digest that its step has on record: weights, moments and critic. Errors: `CheckpointTorn`; those of the disk. */
export async function verifyCheckpoint(dir: string, sha256: string): Promise<void> {
  const record = await readVerifiedRecord(dir);
  if (record?.sha256 !== sha256)
    throw new CheckpointTorn(dir, `its record says ${record?.sha256 ?? 'nothing'}, that of its step ${sha256}`);
  await readThrough(dir);
  const critic = await verifiedCriticDir(dir);
  if (critic !== undefined) await readThrough(critic);
}
