/** The sampler's statistics: counters that only grow, and its current state. */

import type { BlockUse } from './cache/block-cache.ts';

export interface SamplerStats {
  readonly sampledTokens: number;
  /** Tokens of prompts. */
  readonly promptTokens: number;
  /** Prompt tokens that were computed. */
  readonly prefillTokens: number;
  /** Prompt tokens that were found in the cache instead. */
  readonly cachedTokens: number;
  /** Passes without prompt tokens, and rows in them: rows by passes is the mean batch size. */
  readonly decodePasses: number;
  readonly decodeRows: number;
  /** Rows of the largest pass of any kind. */
  readonly mostRows: number;
  readonly decodeSeconds: number;
  /** Passes with prompt tokens, with or without rows that decode their next token. */
  readonly prefillPasses: number;
  readonly prefillSeconds: number;
  /** Time spent in steps. */
  readonly busySeconds: number;
  readonly policiesLoaded: number;
  /** Adapters that were packed beside their base. */
  readonly adaptersLoaded: number;
  /** Admitted requests, and the sum of the times that they waited for admission. */
  readonly admitted: number;
  readonly queueSeconds: number;
  readonly active: number;
  readonly waiting: number;
  /** Blocks of the key-value cache; all 0 before the first policy. */
  readonly blocks: BlockUse;
}

const counted = {
  sampledTokens: 0,
  promptTokens: 0,
  prefillTokens: 0,
  cachedTokens: 0,
  decodePasses: 0,
  decodeRows: 0,
  mostRows: 0,
  decodeSeconds: 0,
  prefillPasses: 0,
  prefillSeconds: 0,
  busySeconds: 0,
  policiesLoaded: 0,
  adaptersLoaded: 0,
  admitted: 0,
  queueSeconds: 0,
};

const noBlocks: BlockUse = { total: 0, used: 0, idle: 0, free: 0, evicted: 0 };

export class SamplerCounters {
  readonly #counts = { ...counted };

  add(what: keyof typeof counted, much: number): void {
    this.#counts[what] += much;
  }

  /** Counts a pass. `tokens`: how many it took of each of its rows. */
  pass(tokens: readonly number[], seconds: number): void {
    const counts = this.#counts;
    const prompts = tokens.filter((count) => count > 1);
    counts.mostRows = Math.max(counts.mostRows, tokens.length);
    if (prompts.length === 0) {
      counts.decodePasses += 1;
      counts.decodeRows += tokens.length;
      counts.decodeSeconds += seconds;
    } else {
      counts.prefillPasses += 1;
      counts.prefillTokens += prompts.reduce((a, b) => a + b, 0);
      counts.prefillSeconds += seconds;
    }
  }

  snapshot(active: number, waiting: number, blocks: BlockUse = noBlocks): SamplerStats {
    return { ...this.#counts, active, waiting, blocks };
  }
}
