/** The vectors of a tiny Qwen3 policy, computed by Hugging Face transformers. */

import { readFileSync } from 'node:fs';
import path from 'node:path';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';

export const vectorsDir = path.resolve(
  process.env['LONGHAUL_VECTORS'] ?? path.join(import.meta.dirname, '../../vectors'),
  'models/qwen3-tiny',
);

interface FilterCase {
  readonly params: {
    readonly temperature: number;
    readonly top_k: number;
    readonly top_p: number;
    readonly min_p: number;
  };
  readonly num_kept: number;
  readonly kept_ids: readonly number[] | null;
}

interface Expected {
  readonly forward: ReadonlyArray<{ readonly input_ids: readonly number[]; readonly logits_tensor: string }>;
  readonly greedy: ReadonlyArray<{
    readonly prompt_ids: readonly number[];
    readonly output_ids: readonly number[];
    readonly logprobs: readonly number[];
  }>;
  readonly sampling_filters: { readonly logits_tensor: string; readonly cases: readonly FilterCase[] };
}

export const expected = JSON.parse(readFileSync(path.join(vectorsDir, 'expected.json'), 'utf8')) as Expected;

/** A tensor of `expected.safetensors`, `[rows, columns]`. */
export async function expectedTensor(name: string): Promise<{ columns: number; data: Float32Array }> {
  const tensor = (await readSafetensors(path.join(vectorsDir, 'expected.safetensors'))).get(name);
  if (tensor === undefined) throw new Error(`expected.safetensors has no ${name}`);
  return { columns: tensor.shape.at(-1) ?? 0, data: tensor.data };
}
