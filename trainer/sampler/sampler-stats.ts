/** What the sampler did so far: counters that only grow. */

import type { BatchRow } from './pass/batch-plan.ts';

export interface SamplerStats {
  readonly sampledTokens: number;
  /** Prompt tokens that were computed. */
  readonly prefillTokens: number;
  /** Prompt tokens that were found in the cache instead. */
  readonly cachedTokens: number;
  /** Passes that decoded one token per row, and rows in them: their quotient is the mean batch size. */
  readonly decodePasses: number;
  readonly decodeRows: number;
  readonly prefillPasses: number;
  /** Time spent in steps. */
  readonly busySeconds: number;
  readonly policiesLoaded: number;
  readonly active: number;
  readonly waiting: number;
}

export class SamplerCounters {
  sampledTokens = 0;
  prefillTokens = 0;
  cachedTokens = 0;
  decodePasses = 0;
  decodeRows = 0;
  prefillPasses = 0;
  busySeconds = 0;
  policiesLoaded = 0;

  pass(parts: readonly BatchRow[]): void {
    if (parts.every(({ count }) => count === 1)) {
      this.decodePasses += 1;
      this.decodeRows += parts.length;
    } else {
      this.prefillPasses += 1;
      for (const { count } of parts) this.prefillTokens += count;
    }
  }

  snapshot(active: number, waiting: number): SamplerStats {
    const { sampledTokens, prefillTokens, cachedTokens, decodePasses, decodeRows, prefillPasses } = this;
    const { busySeconds, policiesLoaded } = this;
    return {
      sampledTokens,
      prefillTokens,
      cachedTokens,
      decodePasses,
      decodeRows,
      prefillPasses,
      busySeconds,
      policiesLoaded,
      active,
      waiting,
    };
  }
}
