/** Says once a minute in the worker's log what its engine sampled in that minute: nothing where it did nothing. */

import type { EmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import type { SamplerStats } from '../../trainer/sampler/sampler-stats.ts';

const EVERY_MS = 60_000;

type Counts = Omit<SamplerStats, 'blocks'>;

const rate = (tokens: number, seconds: number): string => (seconds > 0 ? (tokens / seconds).toFixed(0) : '0');

/**
 * What happened between two looks; `undefined` where no token was sampled or computed. Tokens a second are those of
 * passes over prompts and of passes without, each over its own time.
 */
export function describeSampling(before: SamplerStats, now: SamplerStats): string | undefined {
  const since = (what: keyof Counts): number => now[what] - before[what];
  if (since('sampledTokens') + since('prefillTokens') === 0) return undefined;
  const { used, idle, free } = now.blocks;
  // A model of another shape has a cache of its own, which counts from nothing.
  const evicted = now.blocks.evicted - (now.blocks.evicted < before.blocks.evicted ? 0 : before.blocks.evicted);
  const hits =
    since('promptTokens') > 0 ? ` (${((100 * since('cachedTokens')) / since('promptTokens')).toFixed(0)}%)` : '';
  const batch = since('decodePasses') > 0 ? (since('decodeRows') / since('decodePasses')).toFixed(1) : '0';
  const waited = since('admitted') > 0 ? ((1000 * since('queueSeconds')) / since('admitted')).toFixed(0) : '0';
  return [
    `sampled ${since('sampledTokens')} tokens: batch ${batch} on average, ${now.mostRows} at most so far`,
    `${rate(since('decodeRows'), since('decodeSeconds'))} tokens/s decoded, ${rate(since('prefillTokens'), since('prefillSeconds'))} prompt tokens/s`,
    `prompts ${since('promptTokens')} tokens, of them cached ${since('cachedTokens')}${hits}`,
    `cache blocks ${used} used, ${idle} kept, ${free} free, ${evicted} evicted`,
    `requests waited ${waited} ms on average; ${now.active} running, ${now.waiting} waiting`,
  ].join('; ');
}

/** Returns how to end it. */
export function reportSampling(
  engine: Pick<EmbeddedEngine, 'stats'>,
  write: (line: string) => void,
  everyMs = EVERY_MS,
): () => void {
  let before: SamplerStats | undefined;
  const look = async (): Promise<void> => {
    const now = await engine.stats();
    const line = before === undefined ? undefined : describeSampling(before, now);
    before = now;
    if (line !== undefined) write(line);
  };
  // An engine that is lost is reported by whoever asks it to sample.
  const quietly = (): void => void look().catch(() => undefined);
  quietly();
  const timer = setInterval(quietly, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
