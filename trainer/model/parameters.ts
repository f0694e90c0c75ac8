/**
 * The place of each weight: one flat float32 vector holds the whole policy, in segments that the decoder reads without
 * conversion. A segment begins at a multiple of 16 floats, so that TensorFlow views it without a copy.
 */

import { type ModelConfig, hasBiases, hasHeadNorms } from './config.ts';
import type { Tensor } from './layers/kernels.ts';
import type { NamedTensor } from './safetensors.ts';
import type { Weights } from './weights.ts';

export interface Part {
  readonly name: string;
  readonly shape: readonly number[];
  /** In floats, from the beginning of the flat vector. */
  readonly offset: number;
  readonly size: number;
}

/** A matrix (rows × columns; a vector has one row) of one or more of Hugging Face's tensors, stacked by rows. */
export interface Segment {
  readonly key: string;
  readonly rows: number;
  readonly columns: number;
  readonly offset: number;
  readonly size: number;
  readonly parts: readonly Part[];
}

export interface Layout {
  readonly segments: readonly Segment[];
  /** Floats of the flat vector, padding included. */
  readonly size: number;
}

/** What an optimizer changes: the whole policy, or its adapter. */
export interface Trainable {
  readonly layout: Layout;
  /** [layout.size]; the caller does not own it. */
  readonly flat: Tensor;
  /** Replaces `flat` with `next`, of the same size, and owns it. */
  replace(next: Tensor): void;
}

/** The weights are not those of the configured model. */
export class WrongWeights extends Error {
  override readonly name = 'WrongWeights';
  readonly tensor: string;
  constructor(tensor: string, problem: string) {
    super(`weights: ${tensor} ${problem}`);
    this.tensor = tensor;
  }
}

/** The critic's linear head, by SkyRL's name (`value_head_prefix`): [1, hidden], without a bias. */
export const VALUE_HEAD = 'value_head.weight';

/** A segment's key, and Hugging Face's tensors in it. */
export type SegmentSpec = readonly [
  key: string,
  parts: ReadonlyArray<readonly [name: string, shape: readonly number[]]>,
];

function layerSpecs(config: ModelConfig, index: number): SegmentSpec[] {
  const { hiddenSize: d, intermediateSize: f, heads, kvHeads, headDim } = config;
  const [queries, keys] = [heads * headDim, kvHeads * headDim];
  const spec = (
    key: string,
    ...parts: ReadonlyArray<readonly [suffix: string, shape: readonly number[]]>
  ): SegmentSpec => [`${index}.${key}`, parts.map(([suffix, shape]) => [`model.layers.${index}.${suffix}`, shape])];
  const biases = [
    spec('qkBias', ['self_attn.q_proj.bias', [queries]], ['self_attn.k_proj.bias', [keys]]),
    spec('vBias', ['self_attn.v_proj.bias', [keys]]),
  ];
  const headNorms = [
    spec('qNorm', ['self_attn.q_norm.weight', [headDim]]),
    spec('kNorm', ['self_attn.k_norm.weight', [headDim]]),
  ];
  return [
    spec('attentionNorm', ['input_layernorm.weight', [d]]),
    spec('qk', ['self_attn.q_proj.weight', [queries, d]], ['self_attn.k_proj.weight', [keys, d]]),
    spec('v', ['self_attn.v_proj.weight', [keys, d]]),
    ...(hasBiases(config) ? biases : []),
    ...(hasHeadNorms(config) ? headNorms : []),
    spec('o', ['self_attn.o_proj.weight', [d, queries]]),
    spec('mlpNorm', ['post_attention_layernorm.weight', [d]]),
    spec('gate', ['mlp.gate_proj.weight', [f, d]]),
    spec('up', ['mlp.up_proj.weight', [f, d]]),
    spec('down', ['mlp.down_proj.weight', [d, f]]),
  ];
}

function specs(config: ModelConfig): SegmentSpec[] {
  const { vocabSize: v, hiddenSize: d } = config;
  const layers = Array.from({ length: config.layers }, (_, i) => layerSpecs(config, i)).flat();
  const untied: SegmentSpec = config.valueHead
    ? ['head', [[VALUE_HEAD, [1, d]]]]
    : ['head', [['lm_head.weight', [v, d]]]];
  const head: SegmentSpec[] = config.tiedEmbeddings ? [] : [untied];
  return [
    ['embed', [['model.embed_tokens.weight', [v, d]]]],
    ...layers,
    ['finalNorm', [['model.norm.weight', [d]]]],
    ...head,
  ];
}

const alignment = 16;
const product = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** One segment after the other, each aligned. */
export function layOut(specs: readonly SegmentSpec[]): Layout {
  let at = 0;
  const segments = specs.map(([key, named]): Segment => {
    const offset = at;
    const parts = named.map(([name, shape]): Part => {
      const part = { name, shape, offset: at, size: product(shape) };
      at += part.size;
      return part;
    });
    const size = at - offset;
    at = Math.ceil(at / alignment) * alignment;
    const shape = parts[0]?.shape ?? [];
    const columns = shape.length === 1 ? size : (shape.at(-1) ?? size);
    return { key, rows: size / columns, columns, offset, size, parts };
  });
  return { segments, size: at };
}

export const layoutOf = (config: ModelConfig): Layout => layOut(specs(config));

/** Hugging Face's tensors → the flat vector. `prefix` stands before every name. Errors: `WrongWeights`. */
export function packFlat(layout: Layout, tensors: ReadonlyMap<string, NamedTensor>, prefix = ''): Float32Array {
  const flat = new Float32Array(layout.size);
  const parts = layout.segments.flatMap((segment) => segment.parts);
  for (const { name, shape, offset } of parts) {
    const tensor = tensors.get(prefix + name);
    if (tensor === undefined) throw new WrongWeights(prefix + name, 'is missing');
    if (tensor.shape.join() !== shape.join()) {
      throw new WrongWeights(
        prefix + name,
        `has shape [${tensor.shape.join()}], the configuration says [${shape.join()}]`,
      );
    }
    flat.set(tensor.data, offset);
  }
  return flat;
}

/** Ignored: frequencies follow from the configuration. Older conversions, such as Llama 2's, store them. */
const DERIVED = '.self_attn.rotary_emb.inv_freq';

/** Refuses tensors that the layout lacks; a tied head that is stored as well is ignored. Errors: `WrongWeights`. */
export function refuseUnknown(layout: Layout, tensors: ReadonlyMap<string, NamedTensor>, tied: boolean): void {
  const known = new Set(layout.segments.flatMap((segment) => segment.parts.map((part) => part.name)));
  for (const name of tensors.keys()) {
    if (known.has(name) || (tied && name === 'lm_head.weight') || name.endsWith(DERIVED)) continue;
    throw new WrongWeights(name, 'is not a tensor of the configured model');
  }
}

/** The flat vector → Hugging Face's tensors (views of `flat`). */
export function unpackFlat(layout: Layout, flat: Float32Array, prefix = ''): Weights {
  const parts = layout.segments.flatMap((segment) => segment.parts);
  return new Map(
    parts.map(({ name, shape, offset, size }) => [
      prefix + name,
      { shape: [...shape], data: flat.subarray(offset, offset + size) },
    ]),
  );
}

/** Number of parameters, a tied head counted once. */
export const parameterCount = (layout: Layout): number =>
  layout.segments.reduce((sum, segment) => sum + segment.size, 0);
