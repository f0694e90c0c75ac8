/** Every model of the vectors folder, whatever its name: what Hugging Face's packages computed, and how close is close. */

import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { readWritten } from '../../../protocol/written-json.ts';
import { readSafetensors } from '../../../trainer/model/safetensors.ts';
import { readJson, vectors } from '../tiny-policy.ts';

export interface TensorSample {
  readonly norm: number;
  readonly first16: readonly number[];
  readonly well_conditioned?: readonly boolean[];
}

export interface ForwardCase {
  readonly input_ids: readonly number[];
  readonly logits_tensor: string;
  readonly logits_first16_per_position: ReadonlyArray<readonly number[]>;
  readonly positions: 'all' | 'last8';
  readonly argmax: readonly number[];
  readonly logsumexp: readonly number[];
  readonly logprobs_t1: readonly number[];
  readonly logprobs_t07: readonly number[];
  readonly entropy_t1: readonly number[];
}

export interface PaddedCase {
  readonly input_ids: ReadonlyArray<readonly number[]>;
  readonly attention_mask: ReadonlyArray<readonly number[]>;
  readonly position_ids: ReadonlyArray<readonly number[]>;
  readonly last_token_logits_first16: ReadonlyArray<readonly number[]>;
}

export interface FilterCase {
  readonly params: {
    readonly temperature: number;
    readonly top_k: number;
    readonly top_p: number;
    readonly min_p: number;
  };
  readonly num_kept: number;
  readonly kept_ids: readonly number[] | null;
  readonly top_ids: readonly number[];
  readonly top_probs: readonly number[];
}

export interface ChatCase {
  readonly name: string;
  readonly messages: ReadonlyArray<Record<string, unknown>>;
  readonly tools: readonly unknown[] | null;
  readonly kwargs: Record<string, unknown>;
  readonly rendered?: string;
  readonly ids?: readonly number[];
  readonly assistant_mask?: readonly number[];
  readonly expected_error?: { readonly message: string };
}

export interface Expected {
  readonly tokenizer: {
    readonly cases: ReadonlyArray<{
      readonly text: string;
      readonly ids: number[];
      readonly ids_no_special: number[];
      readonly decoded: string;
      readonly decoded_skip_special: string;
    }>;
    readonly prefix_decodes: { readonly ids: number[]; readonly decoded: string[] };
    readonly vocab_size: number;
    readonly eos_token_id: number;
    readonly pad_token_id: number | null;
    readonly special_ids: Readonly<Record<string, number>>;
  };
  readonly rope_inv_freq: readonly number[];
  readonly forward: readonly ForwardCase[];
  readonly padded: { readonly left: PaddedCase; readonly right: PaddedCase };
  readonly sampling_filters: {
    readonly logits_tensor: string;
    readonly position: number;
    readonly order: readonly string[];
    readonly cases: readonly FilterCase[];
  };
  readonly greedy: ReadonlyArray<{
    readonly prompt_ids: readonly number[];
    readonly output_ids: readonly number[];
    readonly logprobs: readonly number[];
    readonly text: string;
  }>;
  readonly train: {
    readonly input_ids: number[][];
    readonly attention_mask: number[][];
    readonly loss_mask: number[][];
    readonly loss: number;
    readonly global_grad_norm: number;
    readonly all_grad_norms: Readonly<Record<string, number>>;
    readonly grads: Readonly<Record<string, TensorSample>>;
    readonly adamw_step1: {
      readonly lr: number;
      readonly betas: [number, number];
      readonly eps: number;
      readonly weight_decay: number;
      readonly params: Readonly<Record<string, TensorSample>>;
      readonly loss_after: number;
    };
    readonly 'three_more_steps_clip_0.5': {
      readonly steps: ReadonlyArray<{ readonly loss: number; readonly grad_norm_before_clip: number }>;
      readonly final_loss: number;
    };
  };
  readonly lora: {
    readonly r: number;
    readonly alpha: number;
    readonly scaling: number;
    readonly adapter_dir: string;
    readonly loss: number;
    readonly global_grad_norm: number;
    readonly grads: Readonly<Record<string, TensorSample>>;
    readonly outputs: ReadonlyArray<{
      readonly prompt: number;
      readonly last4_logits_tensor: string;
      readonly last_first16: readonly number[];
      readonly argmax_last: number;
    }>;
  };
  readonly chat: readonly ChatCase[];
}

export interface VectorModel {
  /** As failures name it. */
  readonly file: string;
  readonly dir: string;
  readonly expected: Expected;
}

function modelsOf(folder: string): VectorModel[] {
  const names = readdirSync(path.join(folder, 'models'), { withFileTypes: true });
  const found = names
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
  return found.map((name) => {
    const dir = path.join(folder, 'models', name);
    const expected = readJson<Expected>(dir, 'expected.json');
    // Of conversations every number counts as it is written: `12.0` is not `12`.
    const { chat } = readWritten(readFileSync(path.join(dir, 'expected.json'), 'utf8')) as unknown as Pick<
      Expected,
      'chat'
    >;
    return { file: `models/${name}/expected.json`, dir, expected: { ...expected, chat } };
  });
}

export const models = modelsOf(vectors);

export const rawJson = (file: string): Record<string, unknown> =>
  JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;

/** The tensors of `expected.safetensors` by name, each `[rows, columns]`. */
export async function expectedTensors(dir: string): Promise<(name: string) => { columns: number; data: Float32Array }> {
  const tensors = await readSafetensors(path.join(dir, 'expected.safetensors'));
  return (name) => {
    const tensor = tensors.get(name);
    if (tensor === undefined) throw new Error(`expected.safetensors has no ${name}`);
    return { columns: tensor.shape.at(-1) ?? 0, data: tensor.data };
  };
}

/** Fails, saying which value it was, what was expected and what came, unless |got − wanted| ≤ tolerance everywhere. */
export function expectClose(got: ArrayLike<number>, wanted: ArrayLike<number>, tolerance: number, what: string): void {
  expect(got.length, `${what}: number of values`).toBe(wanted.length);
  for (let i = 0; i < wanted.length; i++) {
    const [g, w] = [got[i] ?? NaN, wanted[i] ?? NaN];
    if (!(Math.abs(g - w) <= tolerance)) expect.fail(`${what}[${i}]: expected ${w} (± ${tolerance}), got ${g}`);
  }
}

export const norm = (values: Float32Array): number => Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
export const largest = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((most, x) => Math.max(most, Math.abs(x)), 0);
