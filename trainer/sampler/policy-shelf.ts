/** The policy versions that are loaded: the last two, so that two versions in turns do not load one another out; what is in use stays. */

import type { GenerateRequest } from '../generate-request.ts';
import type { ModelConfig } from '../model/config.ts';
import type { Limits } from './generation.ts';
import type { LoadedPolicy } from './policy-loader.ts';
import type { DecoderKind, DecoderModel } from './pass/decoder.ts';

export type PolicyName = GenerateRequest['policy'];

export interface ShelvedPolicy {
  readonly key: string;
  /** Policies of one shape can share a decoder. */
  readonly shape: string;
  readonly model: DecoderModel;
  readonly limits: Limits;
}

export const policyKey = ({ dir, version, digest = '' }: PolicyName): string => `${version} ${digest} ${dir}`;

/** So many are loaded at once. */
export const mostPolicies = 2;

/** What a decoder's graph depends on. */
const decoderShape = (config: ModelConfig, positions: number): string => JSON.stringify([config, positions]);

export class PolicyShelf {
  readonly #load: (policy: PolicyName) => Promise<LoadedPolicy>;
  readonly #maxContext: number;
  readonly #kind: DecoderKind;
  readonly #onUnload: (key: string) => void;
  /** The one used last at the end. */
  readonly #policies = new Map<string, ShelvedPolicy>();

  /** `onUnload` is called with the key of each policy that leaves the shelf. */
  constructor(
    load: (policy: PolicyName) => Promise<LoadedPolicy>,
    kind: DecoderKind,
    maxContext: number,
    onUnload: (key: string) => void,
  ) {
    this.#load = load;
    this.#onUnload = onUnload;
    this.#kind = kind;
    this.#maxContext = maxContext;
  }

  /** `inUse`: keys of what must stay, fewer than `mostPolicies` beside this one. Errors: those of loading, `WeightsMismatch`. */
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

  /** Before another one is read: memory never holds one more than the shelf. */
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
    const positions = Math.min(config.maxPositions, this.#maxContext);
    const model = await this.#kind.model(config, weights, positions);
    return {
      key,
      shape: decoderShape(config, positions),
      model,
      limits: { positions, modelVocabulary: config.vocabSize, vocabulary, decode },
    };
  }
}
