/** The models of the benches: the starter policy, and a larger random Qwen3, where matrix products dominate more. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageRoot } from '#setup/paths.mjs';
import { modelConfigJson, parseModelConfig } from '../../trainer/model/config.ts';
import { initializeWeights } from '../../trainer/model/initialize.ts';
import { saveWeights } from '../../trainer/model/weights.ts';
import { noiseOf } from '../../trainer/sampler/noise.ts';

export const BENCH_MODELS = ['starter', 'qwen3-60m'] as const;
export type BenchModel = (typeof BENCH_MODELS)[number];

/** 64M parameters; embeddings are not tied, so that the head has its own weights. */
const QWEN3_60M = {
  architectures: ['Qwen3ForCausalLM'],
  model_type: 'qwen3',
  vocab_size: 32_000,
  hidden_size: 512,
  intermediate_size: 2048,
  num_hidden_layers: 8,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  head_dim: 64,
  rms_norm_eps: 1e-6,
  rope_theta: 1_000_000,
  max_position_embeddings: 4096,
  tie_word_embeddings: false,
  initializer_range: 0.02,
  eos_token_id: 0,
};

/** The model of the published numbers of SkyRL's Tinker server. */
export const TINKER_MODEL = {
  architectures: ['Qwen3ForCausalLM'],
  model_type: 'qwen3',
  vocab_size: 512,
  hidden_size: 128,
  intermediate_size: 256,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 32,
  max_position_embeddings: 2048,
  tie_word_embeddings: false,
  eos_token_id: 2,
};

/** Writes `TINKER_MODEL` with random weights into `dir`, and returns it. */
export async function writeTinkerModel(dir: string): Promise<string> {
  const config = parseModelConfig(TINKER_MODEL);
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, 'config.json'), JSON.stringify(modelConfigJson(config)));
  await saveWeights(dir, initializeWeights(config, 'bench'));
  return dir;
}

/** The model's directory; a random one is made in `scratch`. */
export async function benchModel(name: BenchModel, scratch: string): Promise<string> {
  if (name === 'starter') return join(packageRoot, 'examples', 'starter');
  const dir = join(scratch, name);
  const config = parseModelConfig(QWEN3_60M);
  await mkdir(dir, { recursive: true });
  await writeFile(join(dir, 'config.json'), JSON.stringify({ ...modelConfigJson(config), attention_dropout: 0 }));
  await saveWeights(dir, initializeWeights(config, 'bench'));
  return dir;
}

/** `rows` sequences of `length` ids below `vocabulary`, the same for the same `key`. */
export function randomIds(rows: number, length: number, vocabulary: number, key: string): number[][] {
  return Array.from({ length: rows }, (_, row) => {
    const noise = noiseOf(`${key} ${row}`);
    return Array.from({ length }, (_id, at) => Math.floor(noise(at) * vocabulary));
  });
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]];
  return ((low ?? Number.NaN) + (high ?? Number.NaN)) / 2;
}
