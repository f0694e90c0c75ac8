/** A policy's weights under Hugging Face's tensor names, float32 in memory; the digest depends on nothing else. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  type NamedTensor,
  BadSafetensors,
  littleEndianBytes,
  readTensors,
  writeSafetensors,
} from './safetensors.ts';

export type Weights = Map<string, { shape: number[]; data: Float32Array }>;

/** Tensors that were read as what is written. */
export const asWeights = (tensors: ReadonlyMap<string, NamedTensor>): Weights =>
  new Map([...tensors].map(([name, { shape, data }]) => [name, { shape: [...shape], data }]));

const indexFile = 'model.safetensors.index.json';

/** Which file each tensor is in; `undefined` where one file holds all. */
async function readIndex(dir: string): Promise<ReadonlyMap<string, string> | undefined> {
  const file = path.join(dir, indexFile);
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const { weight_map: map = {} } = JSON.parse(text) as { weight_map?: Record<string, string> };
  const entries = Object.entries(map);
  if (entries.length === 0) throw new BadSafetensors(file, 'weight_map names no file');
  const outside = entries.find(([, shard]) => path.basename(shard) !== shard);
  if (outside !== undefined) throw new BadSafetensors(file, `${outside[1]} is not a file beside it`, { tensor: outside[0] });
  return new Map(entries);
}

/**
 * Reads `model.safetensors`, or the shards that its index names, tensor by tensor. Errors: `BadSafetensors`, also where
 * index and shards disagree; the file system's own.
 */
export async function loadWeights(dir: string): Promise<Weights> {
  const index = await readIndex(dir);
  const files = index === undefined ? ['model.safetensors'] : [...new Set(index.values())].sort();
  const weights: Weights = new Map();
  for (const file of files) {
    for await (const [name, { shape, data }] of readTensors(path.join(dir, file))) {
      if (weights.has(name)) throw new BadSafetensors(path.join(dir, file), 'another shard has it too', { tensor: name });
      weights.set(name, { shape: [...shape], data });
    }
  }
  const missing = [...(index ?? [])].find(([name]) => !weights.has(name));
  if (missing !== undefined) throw new BadSafetensors(path.join(dir, missing[1]), `${indexFile} names it, and it is not there`, { tensor: missing[0] });
  return weights;
}

/** Writes `model.safetensors` in `dir` as F32, aside and then renamed. */
export async function saveWeights(dir: string, weights: ReadonlyMap<string, NamedTensor>): Promise<void> {
  await writeSafetensors(path.join(dir, 'model.safetensors'), weights);
}

/** SHA-256 (hex) over the tensors by name in byte order: the name, a NUL, its values as little-endian float32. */
export function weightsDigest(weights: ReadonlyMap<string, NamedTensor>): string {
  const hash = createHash('sha256');
  const entries = [...weights].map(([name, { data }]) => ({ name: Buffer.from(name), data }));
  entries.sort((a, b) => Buffer.compare(a.name, b.name));
  for (const { name, data } of entries) {
    hash
      .update(name)
      .update(Buffer.from([0]))
      .update(littleEndianBytes(data));
  }
  return hash.digest('hex');
}
