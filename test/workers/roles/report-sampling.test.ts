import { expect, it, vi } from 'vitest';
import { SamplerCounters } from '../../../trainer/sampler/sampler-stats.ts';
import { describeSampling, reportSampling } from '../../../workers/roles/report-sampling.ts';

function minute(): {
  readonly before: ReturnType<SamplerCounters['snapshot']>;
  readonly now: ReturnType<SamplerCounters['snapshot']>;
} {
  const counters = new SamplerCounters();
  counters.pass([1, 1, 1, 1, 1], 1);
  const before = counters.snapshot(0, 0);
  counters.add('promptTokens', 200);
  counters.add('cachedTokens', 50);
  counters.add('admitted', 2);
  counters.add('queueSeconds', 0.5);
  counters.add('sampledTokens', 4);
  counters.pass([100, 50, 1], 0.5);
  counters.pass([1, 1], 0.25);
  return { before, now: counters.snapshot(2, 1, { total: 10, used: 3, idle: 4, free: 3, evicted: 7 }) };
}

it('says what was done since the last look, by its own time', () => {
  const { before, now } = minute();
  expect(describeSampling(before, now)).toBe(
    'sampled 4 tokens: batch 2.0 on average, 5 at most so far; 8 tokens/s decoded, 300 prompt tokens/s; ' +
      'prompts 200 tokens, of them cached 50 (25%); cache blocks 3 used, 4 kept, 3 free, 7 evicted; ' +
      'requests waited 250 ms on average; 2 running, 1 waiting',
  );
  expect(describeSampling(now, now)).toBeUndefined();
});

it('writes a line a minute while there is work, none of an engine that is lost, and none once it was ended', async () => {
  vi.useFakeTimers();
  const { before, now } = minute();
  const stats = vi
    .fn()
    .mockResolvedValue(now)
    .mockResolvedValueOnce(before)
    .mockResolvedValueOnce(now)
    .mockResolvedValueOnce(now)
    .mockRejectedValueOnce(new Error('lost'));
  const lines: string[] = [];
  const end = reportSampling({ stats }, (line) => lines.push(line));
  await vi.advanceTimersByTimeAsync(190_000);
  expect({ looks: stats.mock.calls.length, lines: lines.length }).toEqual({ looks: 4, lines: 1 });
  end();
  await vi.advanceTimersByTimeAsync(300_000);
  expect(stats).toHaveBeenCalledTimes(4);
  vi.useRealTimers();
});
