/**
 * The loaded policy versions: the two used last, so that two versions that alternate do not unload each other.
 * A version in use stays loaded.
 */

import type { GenerateRequest } from '../generate-request.ts';
import type { ModelConfig } from '../model/config.ts';
import { contextBound, contextWithin } from './cache/cache-budget.ts';
import type { Limits } from './generation.ts';
import type { LoadedPolicy } from './policy-loader.ts';
import type { DecoderKind, DecoderModel } from './pass/decoder.ts';

/** What bounds the contexts of all policies: a setting, and the bytes of the cache. */
export interface ContextBounds {
  readonly maxContext: number;
  readonly cacheBytes: number;
}

export type PolicyName = GenerateRequest['policy'];

export interface ShelvedPolicy {
  readonly key: string;
  /** Policies of one shape can share a decoder. */
  readonly shape: string;
  readonly model: DecoderModel;
  readonly limits: Limits;
}

export const policyKey = ({ dir, version, digest = '' }: PolicyName): string => `${version} ${digest} ${dir}`;

/** Number of policies that are loaded at once, at most. */
export const mostPolicies = 2;

/** Everything that a decoder's graph depends on, as a key. */
const decoderShape = (config: ModelConfig, positions: number): string => JSON.stringify([config, positions]);

export class PolicyShelf {
  readonly #load: (policy: PolicyName) => Promise<LoadedPolicy>;
  readonly #bounds: ContextBounds;
  readonly #kind: DecoderKind;
  readonly #onUnload: (key: string) => void;
  /** The policy that was used last is at the end. */
  readonly #policies = new Map<string, ShelvedPolicy>();

  /** `onUnload` is called with the key of each policy that leaves the shelf. */
  constructor(
    load: (policy: PolicyName) => Promise<LoadedPolicy>,
    kind: DecoderKind,
    bounds: ContextBounds,
    onUnload: (key: string) => void,
  ) {
    this.#load = load;
    this.#onUnload = onUnload;
    this.#kind = kind;
    this.#bounds = bounds;
  }

  /**
   * Returns the policy, loaded first if it is not. `inUse`: keys of policies that must stay loaded; fewer than
   * `mostPolicies` besides this one. Errors: those of loading, `WeightsMismatch`.
   */
  async take(
    policy: PolicyName,
    inUse: ReadonlySet<string>,
  ): Promise<{ readonly policy: ShelvedPolicy; readonly loaded: boolean }> {
    const key = policyKey(policy);
    const known = this.#policies.get(key);
    this.#policies.delete(key);
    if (known === undefined) this.#makeRoom(inUse);
    const taken = known ?? (await this.#make(key, policy));
    this.#policies.set(key, taken);
    return { policy: taken, loaded: known === undefined };
  }

  dispose(): void {
    for (const { model } of this.#policies.values()) model.dispose();
    this.#policies.clear();
  }

  /** Unloads before the next policy is read: memory never holds more than `mostPolicies`. */
  #makeRoom(inUse: ReadonlySet<string>): void {
    for (const [key, { model }] of this.#policies) {
      if (this.#policies.size < mostPolicies) return;
      if (inUse.has(key)) continue;
      model.dispose();
      this.#policies.delete(key);
      this.#onUnload(key);
    }
  }

  async #make(key: string, policy: PolicyName): Promise<ShelvedPolicy> {
    const { config, weights, vocabulary, decode } = await this.#load(policy);
    const { maxContext, cacheBytes } = this.#bounds;
    const here = contextWithin(cacheBytes, config, this.#kind);
    const positions = Math.min(here.tokens, maxContext);
    const bound = positions < here.tokens ? 'this engine was started with it' : contextBound(here);
    const model = await this.#kind.model(config, weights, positions);
    return {
      key,
      shape: decoderShape(config, positions),
      model,
      limits: { positions, bound, modelVocabulary: config.vocabSize, vocabulary, decode },
    };
  }
}
