/**
 * Continuous batching over one policy's weights: sequences join and leave between any two passes. A step is at most
 * one pass over prompts and one over sequences that wait for their next token.
 */

import type { GenerateResult } from '../engine.ts';
import { type BatchRow, pageSize, paddedWidth, planBatch, wantedLogits } from './pass/batch-plan.ts';
import type { DecoderSession } from './pass/decoder-session.ts';
import type { Generation } from './generation.ts';
import type { SamplerCounters } from './sampler-stats.ts';
import type { SamplerModel } from './pass/sampler-model.ts';
import { type Slot, SlotTable } from './slot-table.ts';

/** A generation and who waits for it. */
export interface Running {
  readonly generation: Generation;
  readonly resolve: (result: GenerateResult) => void;
  readonly reject: (error: unknown) => void;
}

interface Row extends Running {
  readonly slot: Slot;
}

export interface BatcherOptions {
  readonly maxRows: number;
  /** Padded tokens of one pass over prompts. */
  readonly prefillTokens: number;
}

const remaining = ({ slot }: Row): number => slot.tokens.length - slot.cached;

export class Batcher {
  readonly #decoder: DecoderSession;
  readonly #slots: SlotTable;
  readonly #options: BatcherOptions;
  readonly #counters: SamplerCounters;
  #rows: Row[] = [];

  constructor(decoder: DecoderSession, options: BatcherOptions, counters: SamplerCounters) {
    this.#decoder = decoder;
    this.#slots = new SlotTable(decoder.layout.slots);
    this.#options = options;
    this.#counters = counters;
  }

  get active(): number {
    return this.#rows.length;
  }

  /** Takes the generation in, unless there is no room, or another one will soon have computed much of its prompt. */
  admit(policy: string, running: Running): 'admitted' | 'soon' | 'full' {
    if (this.#rows.length >= this.#options.maxRows) return 'full';
    const { cacheKey, tokens, promptLogprobs } = running.generation.request;
    const acquired = this.#slots.acquire(policy, cacheKey, tokens, promptLogprobs);
    if (typeof acquired === 'string') return acquired;
    const { slot, copyFrom } = acquired;
    const row = { ...running, slot };
    this.#rows.push(row);
    this.#counters.cachedTokens += slot.cached;
    try {
      if (copyFrom !== undefined) this.#copy(copyFrom, slot);
    } catch (error) {
      this.#fail(row, error);
    }
    return 'admitted';
  }

  /** Drops a generation that nobody waits for any more. */
  remove(generation: Generation): void {
    const row = this.#rows.find((candidate) => candidate.generation === generation);
    if (row !== undefined) this.#leave(row);
  }

  step(model: SamplerModel): void {
    const prompts = this.#prompts();
    if (prompts.length > 0) this.#pass(model, prompts, this.#options.prefillTokens);
    const waiting = this.#rows.filter((row) => remaining(row) === 1);
    if (waiting.length > 0) this.#pass(model, waiting, waiting.length);
  }

  /** The oldest prompt that is not computed yet, and those of about its length that fit the same pass. */
  #prompts(): Row[] {
    const rows = this.#rows.filter((row) => remaining(row) > 1);
    const chosen: Row[] = [];
    let [oldest, widest] = [0, 0];
    for (const row of rows) {
      const width = paddedWidth(this.#decoder.layout, this.#partOf(row));
      if (chosen.length === 0) oldest = width;
      if (width > 2 * oldest || oldest > 2 * width) continue;
      if (chosen.length > 0 && Math.max(widest, width) * (chosen.length + 1) > this.#options.prefillTokens) continue;
      widest = Math.max(widest, width);
      chosen.push(row);
    }
    return chosen;
  }

  #partOf(row: Row): number {
    return Math.min(remaining(row), pageSize, this.#options.prefillTokens);
  }

  #pass(model: SamplerModel, rows: readonly Row[], budget: number): void {
    const parts = rows.map((row): BatchRow => {
      const { index, tokens, cached } = row.slot;
      return { slot: index, tokens, from: cached, count: Math.min(this.#partOf(row), budget), every: row.generation.inPrompt(cached) };
    });
    let logits: Float32Array;
    try {
      logits = this.#decoder.forward(model, planBatch(this.#decoder.layout, parts));
    } catch (error) {
      for (const row of rows) this.#fail(row, error);
      return;
    }
    this.#counters.pass(parts);
    const vocabulary = model.config.vocabSize;
    let at = 0;
    const next = (): Float32Array => logits.subarray(at * vocabulary, ++at * vocabulary);
    rows.forEach((row, i) => {
      const part = parts[i];
      if (part === undefined) return;
      row.slot.cached += part.count;
      for (let rest = wantedLogits(part) - 1; rest > 0; rest--) row.generation.addPrompt(row.slot.cached - rest, next());
      const last = next();
      if (remaining(row) === 0) this.#draw(row, last);
      else if (part.every === true) row.generation.addPrompt(row.slot.cached, last);
    });
  }

  #draw(row: Row, logits: Float32Array): void {
    try {
      const { token, result } = row.generation.next(logits);
      this.#counters.sampledTokens += 1;
      row.slot.tokens.push(token);
      if (result === undefined) return;
      this.#leave(row);
      row.resolve(result);
    } catch (error) {
      this.#fail(row, error);
    }
  }

  #fail(row: Row, error: unknown): void {
    this.#rows = this.#rows.filter((other) => other !== row);
    this.#slots.forget(row.slot);
    row.reject(error);
  }

  #leave(row: Row): void {
    this.#rows = this.#rows.filter((other) => other !== row);
    this.#slots.release(row.slot);
  }

  #copy(from: Slot, to: Slot): void {
    const pages = Array.from({ length: Math.ceil(to.cached / pageSize) }, (_, i) => i);
    const { pagesPerSlot } = this.#decoder.layout;
    const pagesOf = (slot: Slot): number[] => pages.map((page) => slot.index * pagesPerSlot + page);
    this.#decoder.copyPages(pagesOf(from), pagesOf(to));
  }
}
