/** A policy's weights under Hugging Face's tensor names, float32 in memory; the digest depends on nothing else. */

import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  type NamedTensor,
  BadSafetensors,
  littleEndianBytes,
  readSafetensors,
  writeSafetensors,
} from './safetensors.ts';

export type Weights = Map<string, { shape: number[]; data: Float32Array }>;

const indexFile = 'model.safetensors.index.json';

async function shards(dir: string): Promise<string[]> {
  let text: string;
  try {
    text = await readFile(path.join(dir, indexFile), 'utf8');
  } catch {
    return ['model.safetensors'];
  }
  const index = JSON.parse(text) as { weight_map?: Record<string, string> };
  const files = [...new Set(Object.values(index.weight_map ?? {}))].sort();
  if (files.length === 0) throw new BadSafetensors(path.join(dir, indexFile), 'weight_map names no file');
  return files;
}

/** Reads `model.safetensors`, or the shards that its index names. Errors: `BadSafetensors`, the file system's own. */
export async function loadWeights(dir: string): Promise<Weights> {
  const weights: Weights = new Map();
  for (const file of await shards(dir)) {
    for (const [name, { shape, data }] of await readSafetensors(path.join(dir, file))) {
      weights.set(name, { shape: [...shape], data });
    }
  }
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
