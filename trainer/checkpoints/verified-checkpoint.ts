/**
 * Reads policies for sampling or training. A checkpoint that does not match its recorded digest is torn, and is never
 * used. A directory without `longhaul.json` is used without a check.
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
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';
import {
  adapterConfigFile,
  adapterFile,
  baseDirectory,
  type PolicyFiles,
  readAdapterJson,
  withFixedBase,
} from '../lora/adapter-files.ts';
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

/** A checkpoint's files are truncated, missing, or have other bytes than were written. */
export class CheckpointTorn extends Error {
  override readonly name = 'CheckpointTorn';
  readonly dir: string;

  constructor(dir: string, problem: string, options?: ErrorOptions) {
    super(
      `The checkpoint ${dir} is torn (${problem}) and is not used: restore its files from a backup, ` +
        'or continue from another checkpoint',
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

/** The error to throw for an error of reading a checkpoint. */
function damaged(dir: string, error: unknown): unknown {
  return isDamage(error) ? new CheckpointTorn(dir, error.message, { cause: error }) : error;
}

/** The result of `read`. Errors: `CheckpointTorn` if its error means damage; other errors of `read`. */
export async function intact<T>(dir: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw damaged(dir, error);
  }
}

/** `undefined` if there is none. Errors: `CheckpointTorn`. */
export async function readVerifiedRecord(dir: string): Promise<CheckpointRecord | undefined> {
  const record = await intact(dir, () => readCheckpointRecord(dir));
  if (record !== undefined && typeof record.sha256 !== 'string')
    throw new CheckpointTorn(dir, 'longhaul.json has no sha256');
  return record;
}

/** A policy's configuration. Errors: `CheckpointTorn`; those of `readModelConfig` for a directory without a record. */
export async function readVerifiedConfig(dir: string): Promise<ModelConfig> {
  const read = () => readModelConfig(dir);
  return (await readVerifiedRecord(dir)) === undefined ? read() : intact(dir, read);
}

/** Yields `pieces`; reading errors that mean damage become `CheckpointTorn`. */
async function* intactPieces(dir: string, pieces: AsyncIterable<NamedPiece>): AsyncGenerator<NamedPiece> {
  try {
    yield* pieces;
  } catch (error) {
    throw damaged(dir, error);
  }
}

/**
 * The weights in a directory, piece by piece. The digest is checked after the last piece: a caller must not use the
 * weights before the generator has ended. Errors: `CheckpointTorn`; `BadSafetensors` for a directory without a record.
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

/** Weights that are read piece by piece, on demand. */
export interface PolicyPieces {
  readonly weights: WeightPieces;
  readonly adapter: PolicyFiles['adapter'];
}

/**
 * The policy's weights, or its adapter and the base's weights. Errors, some of them while the weights are read:
 * `CheckpointTorn`, `UnsupportedAdapter`, `BadSafetensors`.
 */
export async function openVerifiedPolicy(dir: string): Promise<PolicyPieces> {
  const adapter = await readAdapterFiles(dir);
  if (adapter === undefined) return { weights: verifiedWeights(dir), adapter: undefined };
  const base = await baseDirectory(dir, adapter.json);
  const { tensors, copies } = withoutBaseCopies(adapter.tensors);
  const weights = copies.size === 0 ? verifiedWeights(base) : checkedAgainst(verifiedWeights(base), copies);
  return { weights, adapter: { json: withFixedBase(dir, adapter.json, base), tensors } };
}

/**
 * Both files of an adapter, checked against `digest` or its record; `undefined` if the directory has no adapter.
 */
async function readAdapterFiles(dir: string, digest?: string): Promise<AdapterWeights | undefined> {
  const json = await intact(dir, () => readAdapterJson(dir));
  if (json === undefined) return undefined;
  const record = await readVerifiedRecord(dir);
  const read = () => readSafetensors(path.join(dir, adapterFile));
  const tensors = await (record === undefined ? read() : intact(dir, read));
  const wanted = [record?.sha256, digest].filter((one) => one !== undefined);
  const actual = wanted.length === 0 ? '' : weightsDigest(tensors);
  for (const one of wanted)
    if (one !== actual) throw new CheckpointTorn(dir, `its adapter hashes to ${actual}, not to ${one}`);
  return { json, tensors };
}

/**
 * An adapter for the weights in `base`, whatever base its configuration names. `digest`: `weightsDigest` of its
 * tensors. Errors: `UserInputError` if the directory has no adapter, `CheckpointTorn`, `BadSafetensors`; `WrongWeights`
 * if it has copies of other base weights.
 */
export async function readVerifiedAdapter(dir: string, base: string, digest?: string): Promise<AdapterWeights> {
  const found = await readAdapterFiles(dir, digest);
  if (found === undefined)
    throw new UserInputError(
      'policy.adapter.dir',
      dir,
      `give a directory with ${adapterConfigFile} and ${adapterFile}`,
    );
  const { tensors, copies } = withoutBaseCopies(found.tensors);
  if (copies.size > 0) {
    const { weights } = await openVerifiedPolicy(base);
    for await (const _piece of checkedAgainst(weights, copies));
  }
  return { json: found.json, tensors };
}

/** Reads the whole policy into memory. Errors: those of `openVerifiedPolicy`. */
export async function readVerifiedPolicy(dir: string): Promise<PolicyFiles> {
  const { weights, adapter } = await openVerifiedPolicy(dir);
  return { weights: await gathered(weights), adapter };
}

/** `undefined` if the policy was never trained here. Errors: `CheckpointTorn`. */
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
 * Directory of the critic that was written with a policy; `undefined` if there is none. The critic's record must match
 * the policy's record; its weights and moments are checked against its own record. Errors: `CheckpointTorn`.
 */
export async function verifiedCriticDir(dir: string): Promise<string | undefined> {
  const expected = (await readVerifiedRecord(dir))?.critic?.sha256;
  if (expected === undefined) return undefined;
  const own = path.join(dir, criticFolder);
  const actual = (await readVerifiedRecord(own))?.sha256;
  if (actual !== expected)
    throw new CheckpointTorn(own, `its record has digest ${actual ?? 'none'}, the policy's record has ${expected}`);
  return own;
}

/** Reads all weights and moments, as sampling and training do. */
async function readThrough(dir: string): Promise<void> {
  for await (const _piece of (await openVerifiedPolicy(dir)).weights);
  await readVerifiedOptimizer(dir);
}

/**
 * Checks weights, moments and critic of a checkpoint; `sha256` is the digest in its step's record. Errors:
 * `CheckpointTorn`; those of the disk.
 */
export async function verifyCheckpoint(dir: string, sha256: string): Promise<void> {
  const record = await readVerifiedRecord(dir);
  if (record?.sha256 !== sha256)
    throw new CheckpointTorn(dir, `its record has digest ${record?.sha256 ?? 'none'}, its step's record has ${sha256}`);
  await readThrough(dir);
  const critic = await verifiedCriticDir(dir);
  if (critic !== undefined) await readThrough(critic);
}
