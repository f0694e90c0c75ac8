/**
 * Continuous batching: sequences join and leave between any two passes. A pass has one model, that of the sequence that
 * is due first, and any of its adapters. It takes every sequence of this model that needs its next token, and as many
 * prompt tokens as fit, in due order. Meanwhile the sequences of other models pause and keep their blocks.
 */

import type { GenerateResult } from '../generate-request.ts';
import type { GenerateCost } from '../../protocol/sampling.ts';
import type { BlockCache, BlockUse, Sequence } from './cache/block-cache.ts';
import type { Generation } from './generation.ts';
import type { Decoder, DecoderModel, PassResult, PassRow } from './pass/decoder.ts';
import { NonFiniteLogits } from './sample-token.ts';
import type { ShelvedPolicy } from './policy-shelf.ts';
import type { SamplerCounters } from './sampler-stats.ts';
import { type Due, inOrder } from './urgency.ts';

/** A generation, the policy that samples it, and the callbacks of its request. */
export interface Running extends Due {
  readonly generation: Generation;
  readonly shelved: Pick<ShelvedPolicy, 'key' | 'modelKey' | 'model' | 'adapter'>;
  readonly resolve: (result: GenerateResult, cost: Omit<GenerateCost, 'queueSeconds'>) => void;
  readonly reject: (error: unknown) => void;
}

interface Row extends Running {
  readonly sequence: Sequence;
  /** When it was admitted, by `performance.now()`. */
  readonly begun: number;
  /** Prompt tokens that were found in the cache. */
  readonly found: number;
  /** Number of passes that it was part of, and the rows in all of them. */
  passes: number;
  company: number;
}

/** A row's part of a pass: its next `count` tokens. */
interface Part {
  readonly row: Row;
  readonly count: number;
}

export interface BatcherOptions {
  /** Rows in one pass. */
  readonly maxRows: number;
  /** Tokens of prompts in one pass. */
  readonly prefillTokens: number;
}

/** Parts of one adapter stand together, so that they are multiplied together. */
const byAdapter = (parts: readonly Part[]): Part[] =>
  [...Map.groupBy(parts, ({ row }) => row.shelved.adapter).values()].flat();

const remaining = ({ sequence }: Row): number => sequence.tokens.length - sequence.cached;

export class Batcher {
  readonly #decoder: Decoder;
  readonly #cache: BlockCache;
  readonly #options: BatcherOptions;
  readonly #counters: SamplerCounters;
  /** Sorted by due time, the first in front. */
  #rows: Row[] = [];

  constructor(decoder: Decoder, cache: BlockCache, options: BatcherOptions, counters: SamplerCounters) {
    this.#decoder = decoder;
    this.#cache = cache;
    this.#options = options;
    this.#counters = counters;
  }

  get active(): number {
    return this.#rows.length;
  }

  /** Sorted by due time, the first in front. */
  get running(): readonly Due[] {
    return this.#rows;
  }

  /** Keys of the policies of running sequences. */
  policies(): Set<string> {
    return new Set(this.#rows.map(({ sequence }) => sequence.policy));
  }

  /** Keys of the models of running sequences. */
  models(): Set<string> {
    return new Set(this.#rows.map(({ shelved }) => shelved.modelKey));
  }

  /** Frees the cached blocks of a policy that is unloaded. None of its sequences may run. */
  forgetPolicy(key: string): void {
    this.#cache.forgetPolicy(key);
  }

  blocks(): BlockUse {
    return this.#cache.use();
  }

  /**
   * Admits the generation, unless there is no room, or another one that is due earlier will soon have computed more of
   * its prompt. A pass full of sequences that are due later has room: the last of them pauses.
   */
  admit(running: Running): 'admitted' | 'soon' | 'full' {
    const {
      generation,
      due,
      shelved: { key: policy, modelKey },
    } = running;
    const before = new Set(
      this.#rows.flatMap((row) => (row.shelved.modelKey === modelKey && row.due <= due ? [row.sequence] : [])),
    );
    if (before.size >= this.#options.maxRows) return 'full';
    const { tokens, promptLogprobs } = generation.request;
    const admitted = this.#cache.admit(policy, tokens, generation.longest, promptLogprobs, before);
    if (typeof admitted === 'string') return admitted;
    const { sequence, copy } = admitted;
    const row = { ...running, sequence, begun: performance.now(), found: sequence.cached, passes: 0, company: 0 };
    this.#rows = inOrder([...this.#rows, row]);
    this.#counters.add('promptTokens', tokens.length);
    this.#counters.add('cachedTokens', sequence.cached);
    try {
      if (copy !== undefined && copy.from !== copy.to) this.#decoder.copyBlock(copy.from, copy.to);
    } catch (error) {
      this.#fail(row, error);
    }
    return 'admitted';
  }

  /** Drops a cancelled generation. */
  remove(generation: Generation): void {
    const row = this.#rows.find((candidate) => candidate.generation === generation);
    if (row !== undefined) this.#leave(row);
  }

  /** Computes one pass. */
  step(): void {
    const [first] = this.#rows;
    if (first === undefined) return;
    const { model, modelKey } = first.shelved;
    const rows = this.#rows.filter(({ shelved }) => shelved.modelKey === modelKey).slice(0, this.#options.maxRows);
    this.#pass(model, byAdapter(this.#partsOf(rows)));
  }

  #partsOf(rows: readonly Row[]): Part[] {
    const parts = rows.filter((row) => remaining(row) === 1).map((row) => ({ row, count: 1 }));
    let room = this.#options.prefillTokens;
    for (const row of rows) {
      const count = Math.min(remaining(row), room);
      if (remaining(row) === 1 || count === 0) continue;
      parts.push({ row, count });
      room -= count;
    }
    return parts;
  }

  #pass(model: DecoderModel, parts: readonly Part[]): void {
    const begun = performance.now();
    let results: PassResult[];
    try {
      results = this.#decoder.forward(
        model,
        parts.map(({ row, count }) => this.#passRow(row, count)),
      );
    } catch (error) {
      for (const { row } of parts) this.#fail(row, error);
      return;
    }
    for (const [i, { row, count }] of parts.entries()) {
      this.#cache.computed(row.sequence, row.sequence.cached + count);
      row.passes += 1;
      row.company += parts.length;
      const result = results[i];
      if (result !== undefined) this.#take(row, result);
    }
    this.#counters.pass(
      parts.map(({ count }) => count),
      (performance.now() - begun) / 1000,
    );
  }

  #passRow(row: Row, count: number): PassRow {
    const { sequence, generation } = row;
    const { tokens, cached: from } = sequence;
    this.#cache.extend(sequence, from + count);
    const last = (): PassRow['want'] => (from + count < tokens.length ? 'nothing' : (generation.draw() ?? 'logits'));
    const want = generation.inPrompt(from) ? 'every' : last();
    return { tokens, from, count, blocks: sequence.blocks, adapter: row.shelved.adapter, want };
  }

  #take(row: Row, result: PassResult): void {
    const { generation, sequence } = row;
    try {
      if ('drawn' in result) {
        if (result.drawn === undefined) throw new NonFiniteLogits();
        this.#accept(row, generation.accept(result.drawn));
        return;
      }
      const from = sequence.cached - result.logits.length + 1;
      for (const [i, logits] of result.logits.entries()) {
        if (generation.inPrompt(from + i)) generation.addPrompt(from + i, logits);
        else this.#accept(row, generation.next(logits));
      }
    } catch (error) {
      this.#fail(row, error);
    }
  }

  #accept(row: Row, { token, result }: ReturnType<Generation['accept']>): void {
    this.#counters.add('sampledTokens', 1);
    row.sequence.tokens.push(token);
    if (result === undefined) return;
    this.#leave(row);
    const { begun, found, passes, company } = row;
    row.resolve(result, {
      seconds: (performance.now() - begun) / 1000,
      cachedTokens: found,
      batchSize: company / passes,
    });
  }

  #fail(row: Row, error: unknown): void {
    this.#rows = this.#rows.filter((other) => other !== row);
    this.#cache.forget(row.sequence);
    row.reject(error);
  }

  #leave(row: Row): void {
    this.#rows = this.#rows.filter((other) => other !== row);
    this.#cache.release(row.sequence);
  }
}
