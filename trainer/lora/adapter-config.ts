/**
 * PEFT's `adapter_config.json`: which modules an adapter changes, and its scaling. Other settings are refused by name.
 */

import { type Layout, type Part, VALUE_HEAD } from '../model/parameters.ts';
import type { LoraSettings } from '../../protocol/algorithm.ts';

export type AdapterJson = Readonly<Record<string, unknown>>;

/** An adapter has a setting that is not implemented here. */
export class UnsupportedAdapter extends Error {
  override readonly name = 'UnsupportedAdapter';
  readonly field: string;
  readonly value: unknown;
  constructor(field: string, value: unknown, remedy: string) {
    super(`adapter_config.json: ${field} = ${JSON.stringify(value) ?? 'missing'} is not supported: ${remedy}`);
    this.field = field;
    this.value = value;
  }
}

/** W + scaling · B · A replaces the module's W. */
export interface AdapterModule {
  /** PEFT's name in the base model: `model.layers.0.self_attn.q_proj`. */
  readonly module: string;
  readonly rank: number;
  readonly scaling: number;
  readonly rows: number;
  readonly columns: number;
}

/** Settings that change an adapter's computation or its base. None may be set. */
const refused = [
  'use_dora',
  'use_qalora',
  'use_bdlora',
  'lora_bias',
  'fan_in_fan_out',
  'target_parameters',
  'trainable_token_indices',
  'layer_replication',
  'alora_invocation_tokens',
  'arrow_config',
  'kasa_config',
  'monteclora_config',
];

/** Initializations of an adapter that also change the base's weights. */
const changesBase = /^(pissa|olora|corda|loftq|lora_ga)/;

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || value === false || (Array.isArray(value) && value.length === 0);

const isPositive = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value > 0;

function number(json: AdapterJson, field: string): number {
  const value = json[field];
  if (!isPositive(value)) throw new UnsupportedAdapter(field, value, 'give a positive number');
  return value;
}

function refuseUnsupported(json: AdapterJson): void {
  if (json['peft_type'] !== 'LORA') throw new UnsupportedAdapter('peft_type', json['peft_type'], 'use LORA');
  const bias = json['bias'] ?? 'none';
  if (bias !== 'none') throw new UnsupportedAdapter('bias', bias, 'only "none" is implemented');
  for (const field of refused) {
    if (!isEmpty(json[field]))
      throw new UnsupportedAdapter(field, json[field], 'remove it: only plain LoRA adapters are implemented');
  }
  const begun = json['init_lora_weights'];
  if (typeof begun === 'string' && changesBase.test(begun)) {
    throw new UnsupportedAdapter(
      'init_lora_weights',
      begun,
      'save it with PEFT as a plain adapter (path_initial_model_for_weight_conversion)',
    );
  }
}

/** A warning about a setting that has no effect in training here; `undefined` if there is none. */
export function withoutEffect(json: AdapterJson): string | undefined {
  const dropout = json['lora_dropout'];
  if (isEmpty(dropout) || dropout === 0) return undefined;
  return (
    `adapter_config.json: lora_dropout = ${JSON.stringify(dropout)} has no effect: ` +
    'adapters are trained without dropout'
  );
}

/** As in PEFT: a list has the last parts of module names, a text is a pattern for whole names. */
function matches(module: string, names: unknown, field: string): boolean {
  if (typeof names === 'string') return new RegExp(`^(?:${names})$`).test(module);
  if (!Array.isArray(names)) throw new UnsupportedAdapter(field, names, 'give a list of module names or a pattern');
  return (names as readonly unknown[]).some(
    (name) => typeof name === 'string' && (module === name || module.endsWith(`.${name}`)),
  );
}

function isTarget(json: AdapterJson, module: string): boolean {
  const targets = json['target_modules'];
  const wanted = targets === 'all-linear' ? module !== 'lm_head' : matches(module, targets, 'target_modules');
  if (!wanted) return false;
  if (!isEmpty(json['exclude_modules']) && matches(module, json['exclude_modules'], 'exclude_modules')) return false;
  const layers = json['layers_to_transform'];
  if (isEmpty(layers)) return true;
  const [, layer] = /\.layers\.(\d+)\./.exec(`.${module}`) ?? [];
  return layer !== undefined && [layers].flat().includes(Number(layer));
}

/** The first value whose key, a pattern for the end of a module's name, matches. */
function byPattern(json: AdapterJson, field: string, module: string): number | undefined {
  const patterns = Object.entries((json[field] as Record<string, unknown> | null | undefined) ?? {});
  const value = patterns.find(([key]) => new RegExp(`^(.*\\.)?(${key})$`).test(module))?.[1];
  if (value === undefined || isPositive(value)) return value;
  throw new UnsupportedAdapter(field, json[field], 'give positive numbers');
}

/** The module that a tensor of the base policy belongs to. */
export const moduleOf = (tensor: string): string => tensor.replace(/\.weight$/, '');

/** The value head's name in PEFT's `modules_to_save`. */
export const VALUE_MODULE = moduleOf(VALUE_HEAD);

/**
 * Tensors that the adapter stores whole, instead of its base's. A critic's adapter stores its head, which the base may
 * lack; a policy's adapter stores none. Errors: `UnsupportedAdapter`.
 */
export function savedParts(json: AdapterJson, base: Layout): Part[] {
  const names = json['modules_to_save'];
  if (isEmpty(names)) return [];
  const heads = base.segments.flatMap(({ parts }) => parts).filter(({ name }) => name === VALUE_HEAD);
  if (heads.length > 0 && Array.isArray(names) && names.join() === VALUE_MODULE) return heads;
  throw new UnsupportedAdapter('modules_to_save', names, 'remove it: only plain LoRA adapters are implemented');
}

/** Modules of the policy that the adapter changes, in the layout's order. Errors: `UnsupportedAdapter`. */
export function adapterModules(json: AdapterJson, base: Layout): AdapterModule[] {
  refuseUnsupported(json);
  savedParts(json, base);
  const [rank, alpha] = [number(json, 'r'), number(json, 'lora_alpha')];
  const targets = json['target_modules'];
  if (Array.isArray(targets) && targets.includes('embed_tokens')) {
    throw new UnsupportedAdapter(
      'target_modules',
      targets,
      'remove embed_tokens: adapters of embeddings are not implemented',
    );
  }
  const none = (name: string): boolean => name.includes('embed_tokens') || name === VALUE_HEAD;
  const matrices = base.segments
    .flatMap(({ parts }) => parts)
    .filter(({ name, shape }) => shape.length === 2 && !none(name));
  const modules = matrices.flatMap(({ name, shape }): AdapterModule[] => {
    const module = moduleOf(name);
    if (!isTarget(json, module)) return [];
    const r = byPattern(json, 'rank_pattern', module) ?? rank;
    const a = byPattern(json, 'alpha_pattern', module) ?? alpha;
    const [rows = 0, columns = 0] = shape;
    return [{ module, rank: r, scaling: json['use_rslora'] === true ? a / Math.sqrt(r) : a / r, rows, columns }];
  });
  if (modules.length === 0)
    throw new UnsupportedAdapter('target_modules', targets, 'the base model has no module with such a name');
  return modules;
}

/** A new adapter's settings; targets are the last parts of any modules' names. */
export type NewAdapter = Pick<LoraSettings, 'rank' | 'alpha'> & { readonly targetModules: readonly string[] };

/** PEFT's configuration of a new adapter for the policy in `base`. */
export function adapterJson({ rank, alpha, targetModules }: NewAdapter, base: string): AdapterJson {
  return {
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    base_model_name_or_path: base,
    r: rank,
    lora_alpha: alpha,
    lora_dropout: 0,
    target_modules: [...targetModules],
    bias: 'none',
    fan_in_fan_out: false,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
    rank_pattern: {},
    alpha_pattern: {},
    use_dora: false,
    use_rslora: false,
  };
}

/** The base's directory or hub id. Errors: `UnsupportedAdapter`. */
export function baseOf(json: AdapterJson): string {
  const base = json['base_model_name_or_path'];
  if (typeof base !== 'string' || base === '') {
    throw new UnsupportedAdapter('base_model_name_or_path', base, "give the base policy's directory");
  }
  return base;
}
