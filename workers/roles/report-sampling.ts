/** Logs once a minute what the worker's engine sampled in that minute; no line if it sampled nothing. */

import type { EmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import type { SamplerStats } from '../../trainer/sampler/sampler-stats.ts';

const EVERY_MS = 60_000;

type Counts = Omit<SamplerStats, 'blocks'>;

const rate = (tokens: number, seconds: number): string => (seconds > 0 ? (tokens / seconds).toFixed(0) : '0');

/**
 * What the engine did between two readings; `undefined` if no token was sampled or computed. Tokens per second are
 * given for passes with prompts and for passes without, each over its own time.
 */
export function describeSampling(before: SamplerStats, now: SamplerStats): string | undefined {
  const since = (what: keyof Counts): number => now[what] - before[what];
  if (since('sampledTokens') + since('prefillTokens') === 0) return undefined;
  const { used, idle, free } = now.blocks;
  // A model of another shape has its own cache, whose counter starts at 0.
  const evicted = now.blocks.evicted - (now.blocks.evicted < before.blocks.evicted ? 0 : before.blocks.evicted);
  const hits =
    since('promptTokens') > 0 ? ` (${((100 * since('cachedTokens')) / since('promptTokens')).toFixed(0)}%)` : '';
  const batch = since('decodePasses') > 0 ? (since('decodeRows') / since('decodePasses')).toFixed(1) : '0';
  const waited = since('admitted') > 0 ? ((1000 * since('queueSeconds')) / since('admitted')).toFixed(0) : '0';
  return [
    `sampled ${since('sampledTokens')} tokens: batch ${batch} on average, ${now.mostRows} at most so far`,
    `${rate(since('decodeRows'), since('decodeSeconds'))} tokens/s decoded, ` +
      `${rate(since('prefillTokens'), since('prefillSeconds'))} prompt tokens/s`,
    `prompts ${since('promptTokens')} tokens, of them cached ${since('cachedTokens')}${hits}`,
    `cache blocks ${used} used, ${idle} kept, ${free} free, ${evicted} evicted`,
    `requests waited ${waited} ms on average; ${now.active} running, ${now.waiting} waiting`,
  ].join('; ');
}

/** Returns a function that stops the reports. */
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
  // A lost engine is reported by the next request to sample.
  const quietly = (): void => void look().catch(() => undefined);
  quietly();
  const timer = setInterval(quietly, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
