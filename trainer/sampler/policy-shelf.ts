/**
 * The loaded models, each with its adapters: the two used last, so that two versions that alternate do not unload each
 * other. A model in use stays loaded. A model is the weights of a policy; policies that differ in their adapter alone
 * have one model, unless the decoder needs adapters merged.
 */

import type { AdapterName, PolicyName } from '../generate-request.ts';
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { merged } from '../lora/merged-weights.ts';
import type { ModelConfig } from '../model/config.ts';
import { AdapterShelf } from './adapter-shelf.ts';
import { contextBound, contextWithin } from './cache/cache-budget.ts';
import type { Limits } from './generation.ts';
import type { LoadedPolicy } from './policy-loader.ts';
import type { DecoderAdapter, DecoderKind, DecoderModel } from './pass/decoder.ts';

/** What bounds the contexts of all policies: a setting, and the bytes of the cache. And the bytes of adapters. */
export interface ShelfBounds {
  readonly maxContext: number;
  readonly cacheBytes: number;
  readonly adapterBytes: number;
}

export interface Loaders {
  readonly load: (policy: PolicyName) => Promise<LoadedPolicy>;
  /** Reads an adapter for the weights in `base`. */
  readonly loadAdapter: (adapter: AdapterName, base: string) => Promise<AdapterWeights>;
}

export interface ShelvedPolicy {
  readonly key: string;
  /** Policies with the same model can share passes. */
  readonly modelKey: string;
  /** Policies of one shape can share a decoder. */
  readonly shape: string;
  readonly model: DecoderModel;
  readonly adapter?: DecoderAdapter;
  readonly limits: Limits;
}

/** What has another key shares no cached context. */
export function policyKey({ dir, version, digest = '', adapter }: PolicyName): string {
  const key = `${version} ${digest} ${dir}`;
  return adapter === undefined ? key : `${key}\0${adapter.digest ?? ''} ${adapter.dir}`;
}

function withoutAdapter({ dir, version, digest }: PolicyName): PolicyName {
  return { dir, version, ...(digest === undefined ? {} : { digest }) };
}

/** Number of models that are loaded at once, at most. */
export const mostModels = 2;

/** Everything that a decoder's graph depends on, as a key. */
const decoderShape = (config: ModelConfig, positions: number): string => JSON.stringify([config, positions]);

/** What `take` loaded. */
export interface Loaded {
  readonly model: boolean;
  readonly adapter: boolean;
}

export class PolicyShelf {
  readonly #loaders: Loaders;
  readonly #bounds: ShelfBounds;
  readonly #kind: DecoderKind;
  readonly #onUnload: (key: string) => void;
  /** The model that was used last is at the end. */
  readonly #models = new Map<string, ShelvedPolicy>();
  readonly #adapters: AdapterShelf;

  /** `onUnload` is called with the key of each policy that leaves the shelf. */
  constructor(loaders: Loaders, kind: DecoderKind, bounds: ShelfBounds, onUnload: (key: string) => void) {
    this.#loaders = loaders;
    this.#onUnload = onUnload;
    this.#kind = kind;
    this.#bounds = bounds;
    this.#adapters = new AdapterShelf(bounds.adapterBytes, onUnload);
  }

  /** The key of the policy's model. */
  modelKey(policy: PolicyName): string {
    return policyKey(this.#kind.adapter === undefined ? policy : withoutAdapter(policy));
  }

  /**
   * Returns the policy, loaded first if it is not; `undefined` if adapters in use leave no room for its adapter.
   * `inUse`: keys of models and policies that must stay loaded; fewer than `mostModels` models besides this one.
   * Errors: those of loading, `WeightsMismatch`, `UnsupportedAdapter`, `WrongWeights`.
   */
  async take(
    policy: PolicyName,
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly policy: ShelvedPolicy | undefined; readonly loaded: Loaded }> {
    const modelKey = this.modelKey(policy);
    const known = this.#models.get(modelKey);
    this.#models.delete(modelKey);
    if (known === undefined) this.#makeRoom(inUse);
    const base = known ?? (await this.#make(modelKey, policy));
    this.#models.set(modelKey, base);
    const model = known === undefined;
    const key = policyKey(policy);
    const { adapter: name } = policy;
    if (name === undefined || modelKey === key) return { policy: base, loaded: { model, adapter: false } };
    const load = () => this.#loadAdapter(name, policy.dir, base);
    const taken = await this.#adapters.take(key, modelKey, load, inUse);
    const loaded = { model, adapter: taken?.loaded === true };
    return { policy: taken && { ...base, key, adapter: taken.adapter }, loaded };
  }

  dispose(): void {
    this.#adapters.dispose();
    for (const { model } of this.#models.values()) model.dispose();
    this.#models.clear();
  }

  async #loadAdapter(name: AdapterName, dir: string, { model, limits }: ShelvedPolicy): Promise<DecoderAdapter> {
    const weights = await this.#loaders.loadAdapter(name, dir);
    const made = this.#kind.adapter?.(model.config, limits.positions, weights);
    if (made === undefined) throw new TypeError('this kind of decoder has no adapters');
    return made;
  }

  /** Unloads before the next model is read: memory never holds more than `mostModels`. */
  #makeRoom(inUse: ReadonlySet<string>): void {
    for (const [key, { model }] of this.#models) {
      if (this.#models.size < mostModels) return;
      if (inUse.has(key)) continue;
      this.#adapters.dropOf(key);
      model.dispose();
      this.#models.delete(key);
      this.#onUnload(key);
    }
  }

  async #make(key: string, policy: PolicyName): Promise<ShelvedPolicy> {
    const { config, weights: own, vocabulary, decode } = await this.#loaders.load(withoutAdapter(policy));
    const weights =
      policy.adapter === undefined || this.#kind.adapter !== undefined
        ? own
        : merged(own, await this.#loaders.loadAdapter(policy.adapter, policy.dir), config);
    const { maxContext, cacheBytes } = this.#bounds;
    const here = contextWithin(cacheBytes, config, this.#kind);
    const positions = Math.min(here.tokens, maxContext);
    const bound = positions < here.tokens ? 'this engine was started with it' : contextBound(here);
    const model = await this.#kind.model(config, weights, positions);
    return {
      key,
      modelKey: key,
      shape: decoderShape(config, positions),
      model,
      limits: { positions, bound, modelVocabulary: config.vocabSize, vocabulary, decode },
    };
  }
}
