/** A model's shape, read from Hugging Face's `config.json`: what is not implemented is refused by name, never ignored. */

export type ModelFamily = 'qwen3';

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
  readonly maxPositions: number;
  readonly tiedEmbeddings: boolean;
  /** Standard deviation of a fresh matrix. */
  readonly initializerRange: number;
  /** Ids that end a turn, from `eos_token_id`; `generation_config.json` may name more. */
  readonly eosTokenIds: readonly number[];
}

/** A `config.json` asks for something that this engine does not do. */
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

function count(json: Json, field: string, fallback?: number): number {
  const value = positive(json, field, fallback);
  if (!Number.isInteger(value)) throw new UnsupportedModel(field, value, 'a whole number is needed');
  return value;
}

/** Fields that change the computation, each with the one value that is implemented. */
const required: ReadonlyArray<readonly [string, unknown]> = [
  ['hidden_act', 'silu'],
  ['attention_bias', false],
  ['mlp_bias', false],
  ['use_sliding_window', false],
];

function refuseUnsupported(json: Json): void {
  const type = json['model_type'];
  if (type !== 'qwen3')
    throw new UnsupportedModel('model_type', type, 'use a Qwen3ForCausalLM model (model_type qwen3)');
  const architectures = json['architectures'] ?? ['Qwen3ForCausalLM'];
  if (!Array.isArray(architectures) || architectures[0] !== 'Qwen3ForCausalLM') {
    throw new UnsupportedModel('architectures', architectures, 'use Qwen3ForCausalLM');
  }
  for (const [field, value] of required) {
    if ((json[field] ?? value) !== value) {
      throw new UnsupportedModel(field, json[field], `only ${JSON.stringify(value)} is implemented`);
    }
  }
  const layerTypes = json['layer_types'] ?? [];
  if (!Array.isArray(layerTypes) || layerTypes.some((layer) => layer !== 'full_attention')) {
    throw new UnsupportedModel('layer_types', layerTypes, 'only full_attention is implemented');
  }
  if ('quantization_config' in json) {
    throw new UnsupportedModel('quantization_config', json['quantization_config'], 'use unquantised weights');
  }
  const dtype = json['dtype'] ?? json['torch_dtype'] ?? 'float32';
  if (!['float32', 'float16', 'bfloat16'].includes(typeof dtype === 'string' ? dtype : '')) {
    throw new UnsupportedModel('dtype', dtype, 'float32, float16 and bfloat16 are read, and computed as float32');
  }
}

/** Old spelling: `rope_theta` beside `rope_scaling`; new spelling: both inside `rope_parameters`. */
function parseRopeTheta(json: Json): number {
  const scaling = json['rope_parameters'] ?? json['rope_scaling'] ?? {};
  if (!isRecord(scaling)) throw new UnsupportedModel('rope_parameters', scaling, 'an object is needed');
  const type = scaling['rope_type'] ?? scaling['type'] ?? 'default';
  if (type !== 'default') throw new UnsupportedModel('rope_type', type, 'only "default" is implemented');
  return 'rope_theta' in scaling ? positive(scaling, 'rope_theta') : positive(json, 'rope_theta', 10_000);
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

/** Reads a parsed `config.json`. Errors: `UnsupportedModel`, naming the field, its value and what would do. */
export function parseModelConfig(json: unknown): ModelConfig {
  if (!isRecord(json)) throw new UnsupportedModel('(document)', json, 'a JSON object is needed');
  refuseUnsupported(json);
  const hiddenSize = count(json, 'hidden_size');
  const heads = count(json, 'num_attention_heads');
  const kvHeads = count(json, 'num_key_value_heads', heads);
  if (heads % kvHeads !== 0) {
    throw new UnsupportedModel('num_key_value_heads', kvHeads, `it must divide num_attention_heads = ${heads}`);
  }
  // Qwen3's own default, not hidden_size / heads.
  const headDim = count(json, 'head_dim', 128);
  if (headDim % 2 !== 0) throw new UnsupportedModel('head_dim', headDim, 'an even number is needed');
  return {
    family: 'qwen3',
    vocabSize: count(json, 'vocab_size'),
    hiddenSize,
    intermediateSize: count(json, 'intermediate_size'),
    layers: count(json, 'num_hidden_layers'),
    heads,
    kvHeads,
    headDim,
    normEpsilon: positive(json, 'rms_norm_eps', 1e-6),
    ropeTheta: parseRopeTheta(json),
    maxPositions: count(json, 'max_position_embeddings', 32_768),
    tiedEmbeddings: json['tie_word_embeddings'] === true,
    initializerRange: positive(json, 'initializer_range', 0.02),
    eosTokenIds: parseEos(json),
  };
}

/** The `config.json` of a model that was made here: what `parseModelConfig` and `transformers` read back alike. */
export function modelConfigJson(config: ModelConfig): Record<string, unknown> {
  return {
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
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
    rope_scaling: null,
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
