/**
 * Samples from policies: every request is answered as if it were alone, by the policy version that it names, and
 * requests of one version share their passes.
 */

import { setImmediate, setTimeout } from 'node:timers/promises';
import type { GenerateCost, GenerateRequest, GenerateResult } from '../engine.ts';
import type { ModelConfig } from '../model/config.ts';
import { Batcher, type Running } from './batcher.ts';
import { BlockCache } from './cache/block-cache.ts';
import { blocksWithin, cacheBudget } from './cache/cache-budget.ts';
import { Generation } from './generation.ts';
import { chooseDecoderKind } from './pass/choose-decoder.ts';
import type { Decoder, DecoderKind } from './pass/decoder.ts';
import type { LoadedPolicy } from './policy-loader.ts';
export type { SamplerStats } from './sampler-stats.ts';
import { type PolicyName, PolicyShelf, type ShelvedPolicy, policyKey } from './policy-shelf.ts';
import { SamplerCounters, type SamplerStats } from './sampler-stats.ts';

export interface SamplerOptions {
  readonly load: (policy: PolicyName) => Promise<LoadedPolicy>;
  /** Sequences decoded together. */
  readonly maxRows?: number;
  /** Positions of the longest context, prompt and answer together; at most what the model has. */
  readonly maxContext?: number;
  /** Memory for keys and values; left out, what `cacheBudget` says. */
  readonly cacheBytes?: number;
  /** How long a request that finds nothing running waits for others that its prompt can share a pass with. */
  readonly admissionMs?: number;
  /** The same while several rollouts sample: then others come soon, and a pass over many costs little more. */
  readonly gatherMs?: number;
  /** Tokens of prompts in one pass. */
  readonly prefillTokens?: number;
  /** What computes; left out, what suits the machine. */
  readonly kind?: DecoderKind;
}

interface Waiting {
  readonly request: GenerateRequest;
  readonly arrived: number;
  /** The sampler's step when it arrived. */
  readonly arrivedAt: number;
  generation: Generation | undefined;
  readonly resolve: (result: GenerateResult) => void;
  readonly reject: (error: unknown) => void;
  readonly onCost: ((cost: GenerateCost) => void) | undefined;
}

const defaults = { maxRows: 64, maxContext: 2048, admissionMs: 25, gatherMs: 250, prefillTokens: 512 };

/** Gathering ends early when so many wait, or when nobody came for so long. */
const gathered = 12;
const quietMs = 80;

/** So many rollouts within this time are several. */
const several = 4;
const latelyMs = 2000;

/** While sequences run, requests wait so many steps for company, or until they are one for `manyAre` running ones. */
const patientSteps = 8;
const manyAre = 4;

/** What a decoder's graph depends on. */
const decoderShape = (config: ModelConfig, positions: number): string => JSON.stringify([config, positions]);

export class Sampler {
  readonly #options: typeof defaults & { readonly cacheBytes: number };
  readonly #kind: DecoderKind;
  readonly #shelf: PolicyShelf;
  readonly #counters = new SamplerCounters();
  #queue: Waiting[] = [];
  #current: ShelvedPolicy | undefined;
  #batcher: { readonly shape: string; readonly decoder: Decoder; readonly rows: Batcher } | undefined;
  #loop: Promise<void> | undefined;
  /** When each rollout sampled last, oldest first; nothing older than `latelyMs` before the newest. */
  readonly #lately = new Map<string, number>();
  #steps = 0;

  constructor(options: SamplerOptions) {
    const { load, kind = chooseDecoderKind(), cacheBytes = cacheBudget(), ...given } = options;
    this.#options = { ...defaults, cacheBytes, ...given };
    this.#kind = kind;
    this.#shelf = new PolicyShelf(load, kind, this.#options.maxContext);
  }

  /**
   * Errors: `InvalidRequest`, `ContextTooLong`, `NonFiniteLogits`, those of loading a policy, and the signal's reason.
   */
  generate(request: GenerateRequest, signal?: AbortSignal, onCost?: (cost: GenerateCost) => void): Promise<GenerateResult> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const [arrived, arrivedAt] = [performance.now(), this.#steps];
      this.#remember(request.cacheKey, arrived);
      const waiting: Waiting = { request, arrived, arrivedAt, generation: undefined, resolve, reject, onCost };
      signal?.addEventListener('abort', () => this.#cancel(waiting, signal.reason), { once: true });
      this.#queue.push(waiting);
      this.#loop ??= this.#run();
    });
  }

  /** Resolves when nothing is running or waiting. */
  async idle(): Promise<void> {
    while (this.#loop !== undefined) await this.#loop;
  }

  stats(): SamplerStats {
    return this.#counters.snapshot(this.#active, this.#queue.length, this.#batcher?.rows.blocks());
  }

  /** Gives all memory back. Call it when `idle`. */
  dispose(): void {
    this.#batcher?.decoder.dispose();
    this.#shelf.dispose();
  }

  get #active(): number {
    return this.#batcher?.rows.active ?? 0;
  }

  #cancel(waiting: Waiting, reason: unknown): void {
    this.#queue = this.#queue.filter((other) => other !== waiting);
    if (waiting.generation !== undefined) this.#batcher?.rows.remove(waiting.generation);
    waiting.reject(reason);
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0 || this.#active > 0) {
      await this.#admit();
      this.#step();
      // Messages arrive between steps: new requests, aborts.
      await setImmediate();
    }
    this.#loop = undefined;
  }

  #step(): void {
    if (this.#current === undefined || this.#active === 0) return;
    this.#steps += 1;
    const begun = performance.now();
    this.#batcher?.rows.step(this.#current.model);
    this.#counters.add('busySeconds', (performance.now() - begun) / 1000);
  }

  /** The oldest request says whose turn it is; a version that is not running waits until the running one is done. */
  async #admit(): Promise<void> {
    const [first] = this.#queue;
    if (first === undefined || (this.#active > 0 && !this.#enough(first))) return;
    if (this.#active === 0) await this.#gather(first);
    const [oldest] = this.#queue;
    if (oldest === undefined) return;
    const key = policyKey(oldest.request.policy);
    if (key !== this.#current?.key) {
      if (this.#active > 0 || !(await this.#switchTo(oldest.request.policy, key))) return;
    }
    for (const waiting of this.#queue.filter(({ request }) => policyKey(request.policy) === key)) {
      if (this.#start(waiting, key) === 'full') break;
    }
  }

  /** Nothing runs: waits for company, if there is any to wait for. */
  async #gather(first: Waiting): Promise<void> {
    const longest = first.arrived + (this.#lately.size >= several ? this.#options.gatherMs : this.#options.admissionMs);
    while (this.#queue.length < gathered) {
      const quiet = (this.#queue.at(-1)?.arrived ?? 0) + quietMs;
      const wait = Math.min(longest, quiet) - performance.now();
      if (wait <= 0) return;
      await setTimeout(wait);
    }
  }

  #remember(rollout: string, now: number): void {
    this.#lately.delete(rollout);
    this.#lately.set(rollout, now);
    for (const [other, at] of this.#lately) {
      if (at >= now - latelyMs) return;
      this.#lately.delete(other);
    }
  }

  /**
   * A pass over one prompt costs the running sequences almost a token each: they let requests gather for a few steps,
   * unless those are many already.
   */
  #enough(oldest: Waiting): boolean {
    return this.#queue.length * manyAre >= this.#active || this.#steps - oldest.arrivedAt >= patientSteps;
  }

  #start(waiting: Waiting, key: string): 'admitted' | 'soon' | 'full' {
    if (this.#current === undefined || this.#batcher === undefined) return 'full';
    const leaveQueue = (): void => {
      this.#queue = this.#queue.filter((other) => other !== waiting);
    };
    try {
      waiting.generation ??= new Generation(waiting.request, this.#current.limits);
      const { generation } = waiting;
      const queueSeconds = (performance.now() - waiting.arrived) / 1000;
      const resolve: Running['resolve'] = (result, cost) => {
        waiting.onCost?.({ queueSeconds, ...cost });
        waiting.resolve(result);
      };
      const outcome = this.#batcher.rows.admit(key, { generation, resolve, reject: waiting.reject });
      if (outcome !== 'admitted') return outcome;
      leaveQueue();
      this.#counters.add('admitted', 1);
      this.#counters.add('queueSeconds', queueSeconds);
      return outcome;
    } catch (error) {
      leaveQueue();
      waiting.reject(error);
      return 'soon';
    }
  }

  /** A policy that cannot be loaded fails the requests that name it, and no others. */
  async #switchTo(policy: PolicyName, key: string): Promise<boolean> {
    try {
      this.#current = undefined;
      const { policy: taken, loaded } = await this.#shelf.take(policy);
      if (loaded) this.#counters.add('policiesLoaded', 1);
      this.#prepareBatcher(taken.model.config, taken.limits.positions);
      this.#current = taken;
      return true;
    } catch (error) {
      const failed = this.#queue.filter(({ request }) => policyKey(request.policy) === key);
      this.#queue = this.#queue.filter((waiting) => !failed.includes(waiting));
      for (const waiting of failed) waiting.reject(error);
      return false;
    }
  }

  #prepareBatcher(config: ModelConfig, positions: number): void {
    const shape = decoderShape(config, positions);
    if (this.#batcher?.shape === shape) return;
    this.#batcher?.decoder.dispose();
    this.#batcher = undefined;
    const { maxRows, prefillTokens, cacheBytes } = this.#options;
    const blocks = blocksWithin(cacheBytes, config, positions, this.#kind.blockSize);
    const decoder = this.#kind.decoder(config, positions, blocks);
    const cache = new BlockCache(blocks, this.#kind.blockSize);
    this.#batcher = { shape, decoder, rows: new Batcher(decoder, cache, { maxRows, prefillTokens }, this.#counters) };
  }
}
