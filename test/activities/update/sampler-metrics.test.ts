/** Hunts a hit rate over the wrong prompts (a later turn's prompt is everything before it), and a division by zero. */
import { describe, expect, it } from 'vitest';
import type { GenerateRecord } from '../../../protocol/records.ts';
import { samplerMetrics } from '../../../activities/update/sampler-metrics.ts';
import type { GenerateCost } from '../../../protocol/sampling.ts';

function turn(appended: number, sampled: number, cost?: GenerateCost, reset = false): GenerateRecord {
  const ids = (count: number) => Array.from({ length: count }, () => 1);
  return {
    version: 0,
    appended: ids(appended),
    reset,
    sampled: ids(sampled),
    logprobs: ids(sampled),
    end: 'stop',
    parsed: { kind: 'no-call', content: '' },
    ...(cost && { cost }),
  };
}

describe('metrics of the sampler', () => {
  it("count a turn's whole context as its prompt, and weigh batch sizes by tokens", () => {
    const first = { queueSeconds: 0.2, seconds: 1, cachedTokens: 0, batchSize: 4 };
    const second = { queueSeconds: 0, seconds: 3, cachedTokens: 110, batchSize: 8 };
    // Prompts of 100, 100 + 10 + 5 = 115, and 50 after a reset.
    const turns = [turn(100, 10, first), turn(5, 30, second), turn(50, 0, { ...first, cachedTokens: 40 }, true)];
    expect(samplerMetrics([turns])).toEqual({
      'sampler/calls': 3,
      'sampler/cache_hit_rate': 150 / 265,
      'sampler/batch_size': (4 * 10 + 8 * 30) / 40,
      'sampler/queue_seconds': 0.4 / 3,
      'sampler/seconds': 5 / 3,
      'sampler/tokens_per_second': 8,
    });
  });

  it('leave out calls that reported no cost, whose tokens still count as context', () => {
    const cost = { queueSeconds: 0, seconds: 0, cachedTokens: 0, batchSize: 1 };
    expect(samplerMetrics([[turn(10, 10), turn(0, 0, { ...cost, cachedTokens: 5 })]])).toMatchObject({
      'sampler/calls': 1,
      'sampler/cache_hit_rate': 0.25,
      'sampler/tokens_per_second': 0,
    });
    expect(samplerMetrics([[turn(10, 10)], []])).toEqual({});
  });
});
