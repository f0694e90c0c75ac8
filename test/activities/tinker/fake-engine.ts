/**
 * An engine whose adapters are small numbers: quick, deterministic, and sensitive to order. A lost, doubled or swapped
 * operation changes every later result. Its saves are files, as the real one's.
 */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TinkerPass, TinkerSample, TinkerSampleResult } from '../../../protocol/tinker.ts';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import type { AdapterTrainer } from '../../../trainer/tenants/definition.ts';
import type { TinkerEngine } from '../../../activities/tinker/tinker-engine.ts';

interface Adapter {
  weights: string;
  moments: string;
  /** Depends on the order of what was added. */
  gradient: string;
}

const hash = (...parts: readonly unknown[]) => createHash('sha256').update(JSON.stringify(parts)).digest('hex');
const numbersOf = (text: string, n: number) =>
  Float32Array.from({ length: n }, (_, i) => -Number.parseInt(hash(text, i).slice(0, 6), 16) / 1e6);

export interface FakeOptions {
  /** Called before each operation of the engine; may wait, throw, or end the "process". */
  readonly before?: (what: string, id: string, pass?: TinkerPass, signal?: AbortSignal) => Promise<void> | void;
  readonly beforeSample?: (sample: TinkerSample, signal?: AbortSignal) => Promise<void> | void;
}

export class FakeTrainer implements AdapterTrainer {
  readonly adapters = new Map<string, Adapter>();
  readonly #options: FakeOptions;

  constructor(options: FakeOptions = {}) {
    this.#options = options;
  }

  #of(id: string): Adapter {
    const adapter = this.adapters.get(id);
    if (adapter === undefined) throw new Error(`no adapter ${id} in this engine`);
    return adapter;
  }

  async create(id: string, settings: object): Promise<void> {
    await this.#options.before?.('create', id);
    if ((settings as { rank: number }).rank < 1) throw new UserInputError('rank', 0, 'give a positive number');
    this.adapters.set(id, { weights: hash('new', settings), moments: '', gradient: '' });
  }

  async load(id: string, dir: string, { optimizer }: { readonly optimizer: boolean }): Promise<void> {
    await this.#options.before?.('load', id);
    const saved = JSON.parse(await readFile(join(dir, 'adapter.json'), 'utf8')) as Adapter;
    this.adapters.set(id, optimizer ? saved : { weights: saved.weights, moments: '', gradient: '' });
  }

  async pass(id: string, pass: TinkerPass, signal?: AbortSignal) {
    const adapter = this.#of(id);
    await this.#options.before?.('pass', id, pass, signal);
    if (pass.data.some(({ tokens }) => tokens.includes(-1))) throw new UserInputError('tokens', -1, 'give ids');
    const data = pass.data.map(({ tokens, targets }) => [[...tokens], [...targets]]);
    if (pass.backward) adapter.gradient = hash(adapter.gradient, adapter.weights, data);
    const logprobs = pass.data.map(({ tokens }) => numbersOf(hash(adapter.weights, [...tokens]), tokens.length));
    return { logprobs, metrics: { 'loss:sum': logprobs.reduce((sum, own) => sum - (own[0] ?? 0), 0) } };
  }

  async optimStep(id: string, adam: object) {
    const adapter = this.#of(id);
    await this.#options.before?.('optimStep', id);
    const gradNorm = Number.parseInt(hash(adapter.gradient).slice(0, 8), 16);
    adapter.moments = hash(adapter.moments, adapter.gradient);
    adapter.weights = hash(adapter.weights, adapter.moments, adapter.gradient, adam);
    adapter.gradient = '';
    return { gradNorm };
  }

  async save(id: string, dir: string, what: 'sampler' | 'training') {
    const adapter = this.#of(id);
    await this.#options.before?.('save', id);
    const aside = `${dir}.partial-${hash(id, dir).slice(0, 8)}`;
    await mkdir(aside, { recursive: true });
    const kept = what === 'training' ? adapter : { weights: adapter.weights, moments: '', gradient: '' };
    await writeFile(join(aside, 'adapter.json'), JSON.stringify(kept));
    await rename(aside, dir);
    return { sha256: hash(adapter.weights), bytes: 1000 };
  }

  async drop(id: string): Promise<void> {
    this.adapters.delete(id);
  }
}

export class FakeEngine implements TinkerEngine {
  readonly trainer: FakeTrainer;
  readonly #options: FakeOptions;
  /** The most samples at once. */
  atOnce = 0;
  #running = 0;

  constructor(options: FakeOptions = {}) {
    this.#options = options;
    this.trainer = new FakeTrainer(options);
  }

  async trainerOf(): Promise<AdapterTrainer> {
    return this.trainer;
  }

  async sample(
    base: string,
    adapter: string | undefined,
    sample: TinkerSample,
    signal?: AbortSignal,
  ): Promise<TinkerSampleResult> {
    this.#running += 1;
    this.atOnce = Math.max(this.atOnce, this.#running);
    try {
      await this.#options.beforeSample?.(sample, signal);
      await sleep(1);
      if (sample.maxTokens < 1) throw new UserInputError('maxTokens', sample.maxTokens, 'give a positive number');
      const weights = adapter === undefined ? base : await readFile(join(adapter, 'adapter.json'), 'utf8');
      const noise = hash(weights, [...sample.prompt], sample.seed);
      return {
        sequences: [
          {
            tokens: Int32Array.of(Number.parseInt(noise.slice(0, 6), 16)),
            logprobs: numbersOf(noise, 1),
            finish: 'stop',
          },
        ],
      };
    } finally {
      this.#running -= 1;
    }
  }
}
