/**
 * Samples from policies. Every request gets the answer that it would get alone, by the policy version that it names.
 * Requests of one version, and of adapters that are not merged into it, share their passes. The request that is due
 * first is admitted first, and gets the next pass.
 */

import { setImmediate } from 'node:timers/promises';
import type { AdapterName, GenerateRequest, GenerateResult, PolicyName } from '../generate-request.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import { Batcher, type Running } from './batcher.ts';
import { BlockCache } from './cache/block-cache.ts';
import { adapterBudget, blocksWithin, cacheBudget, type DecoderName } from './cache/cache-budget.ts';
import { Generation } from './generation.ts';
import { chooseDecoderKind, type Decoder, type DecoderKind } from './pass/decoder.ts';
import type { AdapterWeights } from '../lora/adapter-layout.ts';
import { type LoadedPolicy, loadAdapter } from './policy-loader.ts';
export type { SamplerStats } from './sampler-stats.ts';
import { mostModels, PolicyShelf, policyKey, type ShelvedPolicy } from './policy-shelf.ts';
import { SamplerCounters, type SamplerStats } from './sampler-stats.ts';
import { tensorflow } from '../tensorflow.ts';
import { type Due, dueAt, inOrder, ORDINARY, PATIENCE_MS } from './urgency.ts';

export interface SamplerOptions {
  readonly load: (policy: PolicyName) => Promise<LoadedPolicy>;
  /** Reads an adapter for the weights in `base`; left out: from its directory. */
  readonly loadAdapter?: (adapter: AdapterName, base: string) => Promise<AdapterWeights>;
  /** Sequences in one pass. */
  readonly maxRows?: number;
  /** Positions of the longest context, prompt and answer together; the limits of model and memory apply too. */
  readonly maxContext?: number;
  /** Memory for keys and values; left out: `cacheBudget`. */
  readonly cacheBytes?: number;
  /** Memory for adapters that are not merged; left out: `adapterBudget`. */
  readonly adapterBytes?: number;
  /** If nothing runs, a request waits so long for others to share its pass. */
  readonly admissionMs?: number;
  /** The same while several rollouts sample: more requests come soon, and a pass over many costs little more. */
  readonly gatherMs?: number;
  /** Either wait ends early if no request arrives for so long. */
  readonly quietMs?: number;
  /** Prompt tokens in one pass. */
  readonly prefillTokens?: number;
  /** How much sooner a request is due for each step of its priority. */
  readonly patienceMs?: number;
  /** The decoder; left out: the best one for this machine. */
  readonly kind?: DecoderKind;
}

interface Waiting extends Due {
  readonly request: GenerateRequest;
  /** The policy's key. */
  readonly policy: string;
  readonly arrived: number;
  /** The sampler's step when it arrived. */
  readonly arrivedAt: number;
  generation: Generation | undefined;
  readonly resolve: (result: GenerateResult) => void;
  readonly reject: (error: unknown) => void;
  readonly onCost: ((cost: GenerateCost) => void) | undefined;
}

const defaults = {
  maxRows: 64,
  admissionMs: 25,
  gatherMs: 250,
  quietMs: 80,
  prefillTokens: 512,
  patienceMs: PATIENCE_MS,
};

/** The wait for more requests ends as soon as so many are in the queue. */
const gathered = 12;

/** "Several rollouts sample" means: at least so many within this time. */
const several = 4;
const latelyMs = 2000;

/** While sequences run, a request waits for so many steps, or until one waits for each `manyAre` running ones. */
const patientSteps = 8;
const manyAre = 4;

export class Sampler {
  readonly #options: typeof defaults & { readonly cacheBytes: number };
  readonly #kind: DecoderKind;
  readonly #shelf: PolicyShelf;
  readonly #counters = new SamplerCounters();
  /** Sorted by due time, the first in front. */
  #queue: readonly Waiting[] = [];
  /** Requests and sequences that are due later pause. */
  #until = Number.POSITIVE_INFINITY;
  #batcher: { readonly shape: string; readonly decoder: Decoder; readonly rows: Batcher } | undefined;
  #loop: Promise<void> | undefined;
  /** Time of each rollout's last request, oldest first; at most `latelyMs` older than the newest. */
  readonly #lately = new Map<string, number>();
  #steps = 0;
  /** Ends the wait of `#arrivalWithin`. */
  #cameIn: (() => void) | undefined;

  constructor(options: SamplerOptions) {
    const { kind = chooseDecoderKind(), maxContext = Infinity, adapterBytes = adapterBudget(), ...rest } = options;
    const { cacheBytes = cacheBudget(process.env, tensorflow.gpu), load, loadAdapter: adapters, ...given } = rest;
    this.#options = { ...defaults, cacheBytes, ...given };
    this.#kind = kind;
    const loaders = { load, loadAdapter: adapters ?? loadAdapter };
    this.#shelf = new PolicyShelf(loaders, kind, { maxContext, cacheBytes, adapterBytes }, (key) =>
      this.#batcher?.rows.forgetPolicy(key),
    );
  }

  /**
   * Errors: `InvalidRequest`, `ContextTooLong`, `NonFiniteLogits`, those of loading a policy, the signal's reason.
   */
  generate(
    request: GenerateRequest,
    signal?: AbortSignal,
    onCost?: (cost: GenerateCost) => void,
  ): Promise<GenerateResult> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const [arrived, arrivedAt] = [performance.now(), this.#steps];
      this.#remember(request.cacheKey, arrived);
      const [policy, due] = [policyKey(request.policy), dueAt(arrived, request.priority, this.#options.patienceMs)];
      const waiting: Waiting = {
        request,
        policy,
        due,
        arrived,
        arrivedAt,
        generation: undefined,
        resolve,
        reject,
        onCost,
      };
      signal?.addEventListener('abort', () => this.#cancel(waiting, signal.reason), { once: true });
      this.#queue = inOrder([...this.#queue, waiting]);
      this.#cameIn?.();
      this.#wake();
    });
  }

  /** Resolves when no request runs or waits, except paused ones. */
  async idle(): Promise<void> {
    while (this.#loop !== undefined) await this.#loop;
  }

  /** Runs `work` in the turn of an ordinary request that arrives now. Requests that are due later pause meanwhile. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#until = dueAt(performance.now(), ORDINARY, this.#options.patienceMs);
    await this.idle();
    try {
      return await work();
    } finally {
      this.#until = Number.POSITIVE_INFINITY;
      this.#wake();
    }
  }

  /** What it samples with. */
  get decoder(): DecoderName {
    return this.#kind.name;
  }

  stats(): SamplerStats {
    return this.#counters.snapshot(this.#active, this.#queue.length, this.#batcher?.rows.blocks());
  }

  /** Frees all memory. Call it after `idle`. */
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

  /** True if a request that is not paused waits or runs. */
  get #isWanted(): boolean {
    const [waits, runs] = [this.#queue[0], this.#batcher?.rows.running[0]];
    return [waits, runs].some((first) => first !== undefined && first.due <= this.#until);
  }

  #wake(): void {
    if (this.#isWanted) this.#loop ??= this.#run();
  }

  async #run(): Promise<void> {
    while (this.#isWanted) {
      await this.#admit();
      this.#step();
      // New requests and aborts are received between steps.
      await setImmediate();
    }
    this.#loop = undefined;
  }

  #step(): void {
    if (this.#active === 0) return;
    this.#steps += 1;
    const begun = performance.now();
    this.#batcher?.rows.step();
    this.#counters.add('busySeconds', (performance.now() - begun) / 1000);
  }

  /** Admits in due order: no later request overtakes one that waits for room, or for its policy to be loaded. */
  async #admit(): Promise<void> {
    const [first] = this.#queue;
    if (first === undefined || (this.#active > 0 && !this.#enough(first))) return;
    if (this.#active === 0) await this.#gather(first);
    for (const waiting of this.#queue) {
      if (waiting.due > this.#until) return;
      const policy = await this.#policyOf(waiting);
      // It was cancelled meanwhile, or rejected with its policy.
      if (!this.#queue.includes(waiting)) continue;
      if (policy === undefined || this.#start(waiting, policy) === 'full') return;
    }
  }

  /** Nothing runs: waits for more requests to share the first pass. */
  async #gather(first: Waiting): Promise<void> {
    const longest = first.arrived + (this.#lately.size >= several ? this.#options.gatherMs : this.#options.admissionMs);
    while (this.#queue.length < gathered) {
      const quiet = Math.max(0, ...this.#queue.map(({ arrived }) => arrived)) + this.#options.quietMs;
      const wait = Math.min(longest, quiet) - performance.now();
      if (wait <= 0) return;
      await this.#arrivalWithin(wait);
    }
  }

  /** Resolves when the next request arrives, or after so long. */
  #arrivalWithin(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#cameIn = () => {
        clearTimeout(timer);
        resolve();
      };
    });
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
   * True if requests may be admitted beside running sequences. A pass over one prompt costs each of those almost one
   * token, so requests gather for a few steps, unless many wait already.
   */
  #enough(first: Waiting): boolean {
    return this.#queue.length * manyAre >= this.#active || this.#steps - first.arrivedAt >= patientSteps;
  }

  #start(waiting: Waiting, shelved: ShelvedPolicy): 'admitted' | 'soon' | 'full' {
    if (this.#batcher === undefined) return 'full';
    const leaveQueue = (): void => {
      this.#queue = this.#queue.filter((other) => other !== waiting);
    };
    try {
      waiting.generation ??= new Generation(waiting.request, shelved.limits);
      const { generation, due, reject } = waiting;
      const queueSeconds = (performance.now() - waiting.arrived) / 1000;
      const resolve: Running['resolve'] = (result, cost) => {
        waiting.onCost?.({ queueSeconds, ...cost });
        waiting.resolve(result);
      };
      const outcome = this.#batcher.rows.admit({ generation, shelved, due, resolve, reject });
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

  /**
   * The request's policy, loaded; `undefined` if others must end first: one of two other models, all of another shape,
   * or adapters that leave no room. If the policy cannot be loaded, only the requests that name it fail.
   */
  async #policyOf({ request, policy: key }: Waiting): Promise<ShelvedPolicy | undefined> {
    const models = this.#batcher?.rows.models() ?? new Set();
    if (!models.has(this.#shelf.modelKey(request.policy)) && models.size >= mostModels) return undefined;
    try {
      const inUse = new Set([...models, ...(this.#batcher?.rows.policies() ?? [])]);
      const { policy, loaded } = await this.#shelf.take(request.policy, inUse);
      if (loaded.model) this.#counters.add('policiesLoaded', 1);
      if (loaded.adapter) this.#counters.add('adaptersLoaded', 1);
      return policy !== undefined && this.#prepareBatcher(policy) ? policy : undefined;
    } catch (error) {
      const failed = this.#queue.filter((waiting) => waiting.policy === key);
      this.#queue = this.#queue.filter((waiting) => !failed.includes(waiting));
      for (const waiting of failed) waiting.reject(error);
      return undefined;
    }
  }

  /** Makes a decoder of the policy's shape, if no sequence runs in another one. Returns whether there is one. */
  #prepareBatcher({ shape, model: { config }, limits: { positions } }: ShelvedPolicy): boolean {
    if (this.#batcher?.shape === shape) return true;
    if (this.#active > 0) return false;
    this.#batcher?.decoder.dispose();
    this.#batcher = undefined;
    const { maxRows, prefillTokens, cacheBytes } = this.#options;
    const blocks = blocksWithin(cacheBytes, config, this.#kind.blockSize);
    const decoder = this.#kind.decoder(config, positions, blocks);
    const cache = new BlockCache(blocks, this.#kind.blockSize);
    this.#batcher = { shape, decoder, rows: new Batcher(decoder, cache, { maxRows, prefillTokens }, this.#counters) };
    return true;
  }
}
