/**
 * Policy directories: Hugging Face's layout, `longhaul.json` and the optimizer's moments. One that exists is complete.
 */

import { copyFile, mkdir, open, readFile, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { AdapterJson } from '../lora/adapter-config.ts';
import { adapterConfigFile, adapterFile } from '../lora/adapter-files.ts';
import { modelConfigJson, type ModelConfig } from '../model/config.ts';
import { type NamedTensor, readSafetensors, writeSafetensors } from '../model/safetensors.ts';
import { type Weights, saveWeights, weightsDigest } from '../model/weights.ts';

/** `longhaul.json`. */
export interface CheckpointRecord {
  readonly step: number;
  readonly version: number;
  /** `weightsDigest` of `model.safetensors`, or of `adapter_model.safetensors` if the policy is an adapter. */
  readonly sha256: string;
  /** Optimizer steps taken so far; the moments are in `optimizer.safetensors`. */
  readonly optimizer?: { readonly steps: number; /** `weightsDigest` of the moments. */ readonly sha256?: string };
  /** The critic is in `critic/`, a directory with its own record; absent without a critic. */
  readonly critic?: { readonly sha256: string };
  /** Names what the checkpoint was made from; absent if unknown. */
  readonly input?: string;
  /** Metrics of the update that wrote it. */
  readonly metrics?: unknown;
}

/** True if the checkpoint was made from `input`, or if `input` is absent. */
export const isMadeFrom = (record: CheckpointRecord, input: string | undefined): boolean =>
  input === undefined || record.input === input;

export interface OptimizerState {
  readonly steps: number;
  readonly moments: ReadonlyMap<string, NamedTensor>;
}

const recordFile = 'longhaul.json';
const optimizerFile = 'optimizer.safetensors';
/** The critic's folder in a policy's directory. It is complete if the directory is. */
export const criticFolder = 'critic';

/** Files that are copied unchanged from version to version. */
const companions = [
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'chat_template.jinja',
];

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** `undefined` if there is none. */
export async function readCheckpointRecord(dir: string): Promise<CheckpointRecord | undefined> {
  try {
    return JSON.parse(await readFile(path.join(dir, recordFile), 'utf8')) as CheckpointRecord;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** `undefined` if the policy was never trained here; its moments are then zero. */
export async function readOptimizerState(dir: string): Promise<OptimizerState | undefined> {
  const steps = (await readCheckpointRecord(dir))?.optimizer?.steps;
  if (steps === undefined) return undefined;
  return { steps, moments: await readSafetensors(path.join(dir, optimizerFile)) };
}

export interface Checkpoint {
  /** The policy's weights, or only its adapter's. */
  readonly weights: Weights;
  /** PEFT's configuration, if the weights are an adapter's. */
  readonly adapter?: AdapterJson | undefined;
  readonly optimizer: OptimizerState | undefined;
  readonly step: number;
  readonly version: number;
  /** The directory that configuration and tokenizer are copied from; `undefined`: only `config` is written. */
  readonly fromDir: string | undefined;
  /** Written as `config.json` instead of the one in `fromDir`. */
  readonly config?: ModelConfig;
  /** Written into the folder `critic/` of the directory. */
  readonly critic?: Checkpoint | undefined;
  readonly input?: string | undefined;
  readonly metrics?: unknown;
}

async function writeText(file: string, text: string): Promise<void> {
  const handle = await open(file, 'w');
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function copyCompanions(from: string, to: string, names: readonly string[]): Promise<void> {
  const there = new Set(await readdir(from));
  for (const name of names) if (there.has(name)) await copyFile(path.join(from, name), path.join(to, name));
}

function recordOf({ step, version, weights, optimizer, critic, input, metrics }: Checkpoint): CheckpointRecord {
  return {
    step,
    version,
    sha256: weightsDigest(weights),
    ...(optimizer === undefined
      ? {}
      : { optimizer: { steps: optimizer.steps, sha256: weightsDigest(optimizer.moments) } }),
    ...(critic === undefined ? {} : { critic: { sha256: weightsDigest(critic.weights) } }),
    ...(input === undefined ? {} : { input }),
    ...(metrics === undefined ? {} : { metrics }),
  };
}

const asideOf = (dir: string): string => `${dir}.partial-${process.pid}-${Math.random().toString(36).slice(2)}`;

async function fill(dir: string, checkpoint: Checkpoint, record: CheckpointRecord): Promise<void> {
  const { fromDir, config, weights, adapter, optimizer, critic } = checkpoint;
  if (fromDir !== undefined)
    await copyCompanions(fromDir, dir, config === undefined ? ['config.json', ...companions] : companions);
  if (config !== undefined)
    await writeText(path.join(dir, 'config.json'), `${JSON.stringify(modelConfigJson(config), null, 2)}\n`);
  if (adapter === undefined) await saveWeights(dir, weights);
  else {
    await writeText(path.join(dir, adapterConfigFile), `${JSON.stringify(adapter, null, 2)}\n`);
    await writeSafetensors(path.join(dir, adapterFile), weights);
  }
  if (optimizer !== undefined) await writeSafetensors(path.join(dir, optimizerFile), optimizer.moments);
  if (critic !== undefined) {
    const folder = path.join(dir, criticFolder);
    await mkdir(folder);
    await fill(folder, critic, recordOf(critic));
  }
  await writeText(path.join(dir, recordFile), `${JSON.stringify(record, null, 2)}\n`);
}

/**
 * Removes the folders of attempts that were killed, or that will find that another attempt was first. An attempt that
 * still writes removes its folder itself.
 */
async function removePartials(dir: string): Promise<void> {
  const [parent, prefix] = [path.dirname(dir), `${path.basename(dir)}.partial-`];
  for (const name of await readdir(parent)) {
    if (name.startsWith(prefix))
      await rm(path.join(parent, name), { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Removes `dir` with one rename first, so that a reader finds it complete or missing. */
export async function removeCheckpoint(dir: string): Promise<void> {
  const aside = asideOf(dir);
  await rename(dir, aside).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  await rm(aside, { recursive: true, force: true });
}

/**
 * Writes another folder, then renames it to `dir`. If another attempt wrote the same checkpoint first, returns its
 * record, and `written` is false. Errors: those of the disk; that of renaming if `dir` exists and was made from
 * something else.
 */
export async function writeCheckpoint(
  dir: string,
  checkpoint: Checkpoint,
): Promise<{ readonly record: CheckpointRecord; readonly written: boolean }> {
  const record = recordOf(checkpoint);
  const aside = asideOf(dir);
  await mkdir(aside, { recursive: true });
  try {
    await fill(aside, checkpoint, record);
    await rename(aside, dir);
  } catch (error) {
    await rm(aside, { recursive: true, force: true });
    const first = await readCheckpointRecord(dir);
    if (first !== undefined && isMadeFrom(first, record.input)) return { record: first, written: false };
    throw error;
  }
  await removePartials(dir);
  return { record, written: true };
}
