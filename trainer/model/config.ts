/** A model's shape, read from Hugging Face's `config.json`. Unsupported fields are refused by name, never ignored. */

import type { Llama3Scaling } from './layers/rope-frequencies.ts';

export type ModelFamily = 'qwen3' | 'qwen2' | 'llama';

export interface ModelConfig {
  readonly family: ModelFamily;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly normEpsilon: number;
  readonly ropeTheta: number;
  /** Left out: no scaling. */
  readonly ropeScaling?: Llama3Scaling;
  readonly maxPositions: number;
  readonly tiedEmbeddings: boolean;
  /** Set for a critic: its head gives one number per position instead of one per vocabulary entry. */
  readonly valueHead?: true;
  /** Standard deviation of a fresh matrix. */
  readonly initializerRange: number;
  /** Ids that end a turn, from `eos_token_id`; `generation_config.json` may name more. */
  readonly eosTokenIds: readonly number[];
}

interface Family {
  readonly architecture: string;
  /** `undefined`: hidden size divided by heads. */
  readonly defaultHeadDim: number | undefined;
  readonly defaultMaxPositions: number;
  /** Queries and keys of each head are normalised. */
  readonly headNorms: boolean;
  /** Projections of queries, keys and values have biases. */
  readonly biases: boolean;
}

const families: Readonly<Record<ModelFamily, Family>> = {
  qwen3: {
    architecture: 'Qwen3ForCausalLM',
    defaultHeadDim: 128,
    defaultMaxPositions: 32_768,
    headNorms: true,
    biases: false,
  },
  qwen2: {
    architecture: 'Qwen2ForCausalLM',
    defaultHeadDim: undefined,
    defaultMaxPositions: 32_768,
    headNorms: false,
    biases: true,
  },
  llama: {
    architecture: 'LlamaForCausalLM',
    defaultHeadDim: undefined,
    defaultMaxPositions: 2048,
    headNorms: false,
    biases: false,
  },
};

export const hasHeadNorms = ({ family }: Pick<ModelConfig, 'family'>): boolean => families[family].headNorms;
export const hasBiases = ({ family }: Pick<ModelConfig, 'family'>): boolean => families[family].biases;

/** A `config.json` needs something that this engine does not support. */
export class UnsupportedModel extends Error {
  override readonly name = 'UnsupportedModel';
  readonly field: string;
  readonly value: unknown;
  constructor(field: string, value: unknown, remedy: string) {
    super(`config.json: ${field} = ${JSON.stringify(value) ?? 'missing'} is not supported: ${remedy}`);
    this.field = field;
    this.value = value;
  }
}

type Json = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function positive(json: Json, field: string, fallback?: number): number {
  const value = json[field] ?? fallback;
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) {
    throw new UnsupportedModel(field, json[field], 'a positive number is needed');
  }
  return value;
}

/** Largest value of any size: the compiled decoder counts in 32 bits. */
const most = 2 ** 31 - 1;

function count(json: Json, field: string, fallback?: number): number {
  const value = positive(json, field, fallback);
  if (!Number.isInteger(value)) throw new UnsupportedModel(field, value, 'a whole number is needed');
  if (value > most) throw new UnsupportedModel(field, value, `it must be ${most} or less`);
  return value;
}

/** Fields that change the computation, each with the values that are implemented. */
const required: ReadonlyArray<readonly [string, readonly unknown[]]> = [
  ['hidden_act', ['silu']],
  ['attention_bias', [false]],
  ['mlp_bias', [false]],
  ['use_sliding_window', [false]],
  ['partial_rotary_factor', [1]],
];

/** Fields of other kinds of models, each with the remedy: none of them may be set. */
const foreign: ReadonlyArray<readonly [string, string]> = [
  ['quantization_config', 'use unquantised weights'],
  ['vision_config', 'use a text model: images are not implemented'],
  ['num_experts', 'use a dense model: mixtures of experts are not implemented'],
  ['num_local_experts', 'use a dense model: mixtures of experts are not implemented'],
];

const isFamily = (type: unknown): type is ModelFamily => typeof type === 'string' && Object.hasOwn(families, type);

function familyOf(json: Json): ModelFamily {
  const type = json['model_type'];
  if (!isFamily(type)) {
    throw new UnsupportedModel(
      'model_type',
      type,
      `use a dense text model of type ${Object.keys(families).join(', ')}`,
    );
  }
  const { architecture } = families[type];
  const architectures = json['architectures'] ?? [architecture];
  if (!Array.isArray(architectures) || architectures[0] !== architecture) {
    throw new UnsupportedModel('architectures', architectures, `use ${architecture}`);
  }
  return type;
}

function refuseUnsupported(json: Json): void {
  for (const [field, values] of required) {
    const value = json[field] ?? values[0];
    if (!values.includes(value)) {
      throw new UnsupportedModel(
        field,
        value,
        `only ${values.map((x) => JSON.stringify(x)).join(', ')} is implemented`,
      );
    }
  }
  const layerTypes = json['layer_types'] ?? [];
  if (!Array.isArray(layerTypes) || layerTypes.some((layer) => layer !== 'full_attention')) {
    throw new UnsupportedModel('layer_types', layerTypes, 'only full_attention is implemented');
  }
  for (const [field, remedy] of foreign) {
    if ((json[field] ?? null) !== null) throw new UnsupportedModel(field, json[field], remedy);
  }
  const dtype = json['dtype'] ?? json['torch_dtype'] ?? 'float32';
  if (!['float32', 'float16', 'bfloat16'].includes(typeof dtype === 'string' ? dtype : '')) {
    throw new UnsupportedModel('dtype', dtype, 'use float32, float16 or bfloat16; all are computed as float32');
  }
}

function parseLlama3(json: Json, rope: Json): Llama3Scaling {
  const [lowFreqFactor, highFreqFactor] = [positive(rope, 'low_freq_factor'), positive(rope, 'high_freq_factor')];
  if (lowFreqFactor >= highFreqFactor) {
    throw new UnsupportedModel(
      'high_freq_factor',
      highFreqFactor,
      `more than low_freq_factor = ${lowFreqFactor} is needed`,
    );
  }
  const positions = json['original_max_position_embeddings'] ?? json['max_position_embeddings'];
  const fallback = typeof positions === 'number' ? positions : undefined;
  return {
    type: 'llama3',
    factor: positive(rope, 'factor'),
    lowFreqFactor,
    highFreqFactor,
    originalMaxPositions: positive(rope, 'original_max_position_embeddings', fallback),
  };
}

/**
 * Old spelling: `rope_theta` beside `rope_scaling`; new spelling: both inside `rope_parameters`. Where a configuration
 * has both, the old one counts, as in `transformers`.
 */
function parseRope(json: Json): Pick<ModelConfig, 'ropeTheta' | 'ropeScaling'> {
  const field = (json['rope_scaling'] ?? null) === null ? 'rope_parameters' : 'rope_scaling';
  const rope = json[field] ?? {};
  if (!isRecord(rope)) throw new UnsupportedModel(field, rope, 'an object is needed');
  const type = rope['rope_type'] ?? rope['type'] ?? 'default';
  if (type !== 'default' && type !== 'llama3') {
    throw new UnsupportedModel('rope_type', type, 'only "default" and "llama3" are implemented');
  }
  if ((rope['partial_rotary_factor'] ?? 1) !== 1) {
    throw new UnsupportedModel('partial_rotary_factor', rope['partial_rotary_factor'], 'only 1 is implemented');
  }
  for (const [name, value] of Object.entries(rope)) {
    if (isRecord(value))
      throw new UnsupportedModel(`${field}.${name}`, value, 'one rotary embedding for all layers is implemented');
  }
  const ropeTheta = 'rope_theta' in rope ? positive(rope, 'rope_theta') : positive(json, 'rope_theta', 10_000);
  return type === 'default' ? { ropeTheta } : { ropeTheta, ropeScaling: parseLlama3(json, rope) };
}

function parseEos(json: Json): number[] {
  const value = json['eos_token_id'];
  if (value === null || value === undefined) return [];
  const ids: readonly unknown[] = Array.isArray(value) ? value : [value];
  return ids.map((id) => {
    if (typeof id !== 'number') throw new UnsupportedModel('eos_token_id', value, 'token ids are needed');
    return id;
  });
}

/** Reads a parsed `config.json`. Errors: `UnsupportedModel`, with the field, its value and the remedy. */
export function parseModelConfig(json: unknown): ModelConfig {
  if (!isRecord(json)) throw new UnsupportedModel('(document)', json, 'a JSON object is needed');
  const family = familyOf(json);
  refuseUnsupported(json);
  const hiddenSize = count(json, 'hidden_size');
  const heads = count(json, 'num_attention_heads');
  const kvHeads = count(json, 'num_key_value_heads', heads);
  if (heads % kvHeads !== 0) {
    throw new UnsupportedModel('num_key_value_heads', kvHeads, `it must divide num_attention_heads = ${heads}`);
  }
  const headDim = count(json, 'head_dim', families[family].defaultHeadDim ?? hiddenSize / heads);
  if (headDim % 2 !== 0) throw new UnsupportedModel('head_dim', headDim, 'an even number is needed');
  return {
    family,
    vocabSize: count(json, 'vocab_size'),
    hiddenSize,
    intermediateSize: count(json, 'intermediate_size'),
    layers: count(json, 'num_hidden_layers'),
    heads,
    kvHeads,
    headDim,
    normEpsilon: positive(json, 'rms_norm_eps', 1e-6),
    ...parseRope(json),
    maxPositions: count(json, 'max_position_embeddings', families[family].defaultMaxPositions),
    tiedEmbeddings: json['tie_word_embeddings'] === true,
    initializerRange: positive(json, 'initializer_range', 0.02),
    eosTokenIds: parseEos(json),
  };
}

function ropeScalingJson({ ropeScaling }: ModelConfig): Record<string, unknown> | null {
  if (ropeScaling === undefined) return null;
  return {
    rope_type: ropeScaling.type,
    factor: ropeScaling.factor,
    low_freq_factor: ropeScaling.lowFreqFactor,
    high_freq_factor: ropeScaling.highFreqFactor,
    original_max_position_embeddings: ropeScaling.originalMaxPositions,
  };
}

/** A decoder's configuration with a value head instead of a vocabulary's. */
export const valueConfig = (config: ModelConfig): ModelConfig => ({
  ...config,
  tiedEmbeddings: false,
  valueHead: true,
});

/** The `config.json` of a model that was made here. `parseModelConfig` and `transformers` read the same from it. */
export function modelConfigJson(config: ModelConfig): Record<string, unknown> {
  return {
    architectures: [families[config.family].architecture],
    model_type: config.family,
    vocab_size: config.vocabSize,
    hidden_size: config.hiddenSize,
    intermediate_size: config.intermediateSize,
    num_hidden_layers: config.layers,
    num_attention_heads: config.heads,
    num_key_value_heads: config.kvHeads,
    head_dim: config.headDim,
    hidden_act: 'silu',
    rms_norm_eps: config.normEpsilon,
    rope_theta: config.ropeTheta,
    rope_scaling: ropeScalingJson(config),
    attention_bias: false,
    use_sliding_window: false,
    max_position_embeddings: config.maxPositions,
    tie_word_embeddings: config.tiedEmbeddings,
    initializer_range: config.initializerRange,
    bos_token_id: null,
    eos_token_id: config.eosTokenIds.length === 1 ? config.eosTokenIds[0] : [...config.eosTokenIds],
    torch_dtype: 'float32',
  };
}
