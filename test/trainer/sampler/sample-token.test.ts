import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { noiseOf } from '../../../trainer/sampler/noise.ts';
import { NonFiniteLogits, filterWeights, sampleToken } from '../../../trainer/sampler/sample-token.ts';

const plain = { temperature: 1, topP: 1, topK: 0, maxTokens: 1 };

/** The definition: sort, then cut. Ties with top-k's last are kept. */
function keptBySorting(logits: Float32Array, temperature: number, topK: number, topP: number): number[] {
  const largest = Math.max(...logits);
  const weight = (id: number): number => Math.exp(((logits[id] ?? 0) - largest) / temperature);
  let ids = [...logits.keys()].sort((a, b) => weight(b) - weight(a) || a - b);
  if (topK > 0 && topK < ids.length) {
    const least = weight(ids[topK - 1] ?? 0);
    ids = ids.filter((id) => weight(id) >= least);
  }
  // Of equal weights, higher ids are kept, as in transformers.
  ids.sort((a, b) => weight(b) - weight(a) || b - a);
  const total = ids.reduce((sum, id) => sum + weight(id), 0);
  let before = 0;
  const kept = ids.filter((id) => {
    const keep = topP >= 1 || before < topP * total;
    before += weight(id);
    return keep;
  });
  return kept.sort((a, b) => a - b);
}

function kept(logits: Float32Array, temperature: number, topK: number, topP: number): number[] {
  const largest = Math.max(...logits);
  const weights = Float64Array.from(logits, (logit) => Math.exp((logit - largest) / temperature));
  filterWeights(weights, { topK, topP });
  return [...weights.keys()].filter((id) => (weights[id] ?? 0) > 0);
}

describe('filterWeights', () => {
  it('equals sorting and cutting, ties included', () => {
    // Few distinct powers of two: ties are common.
    const logit = fc.integer({ min: -6, max: 6 }).map((n) => n * Math.LN2);
    fc.assert(
      fc.property(
        fc.array(logit, { minLength: 1, maxLength: 40 }),
        fc.nat({ max: 45 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (values, topK, topP) => {
          const logits = Float32Array.from(values);
          expect(kept(logits, 1, topK, topP)).toEqual(keptBySorting(logits, 1, topK, topP));
        },
      ),
      { numRuns: 500, seed: 1 },
    );
  });
});

describe('sampleToken', () => {
  const logits = Float32Array.from([1, 3, -2, 3, 0.5, 2]);

  it('takes the lowest of equal logits when greedy, with its log-probability at temperature 1', () => {
    const { token, logprob } = sampleToken(logits, 6, { ...plain, temperature: 0 }, 0.999);
    const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0);
    expect(token).toBe(1);
    expect(logprob).toBeCloseTo(3 - Math.log(sum), 6);
  });

  it('records log-probabilities at the sampling temperature, before the filters', () => {
    const temperature = 0.7;
    const sum = logits.reduce((total, logit) => total + Math.exp(logit / temperature), 0);
    const { token, logprob } = sampleToken(logits, 6, { ...plain, temperature, topK: 1, topP: 0.1 }, 0.2);
    expect(logprob).toBeCloseTo((logits[token] ?? 0) / temperature - Math.log(sum), 6);
  });

  it('never draws an id at or beyond the limit, but counts it in the log-probabilities', () => {
    const drawn = Array.from({ length: 200 }, (_, i) => sampleToken(logits, 3, plain, i / 200));
    expect(new Set(drawn.map(({ token }) => token))).toEqual(new Set([0, 1, 2]));
    const sum = logits.reduce((total, logit) => total + Math.exp(logit), 0);
    expect(drawn[0]?.logprob).toBeCloseTo(1 - Math.log(sum), 6);
    expect(sampleToken(Float32Array.from([0, 1, 9]), 2, { ...plain, temperature: 0 }, 0).token).toBe(1);
  });

  it('draws tokens with the frequencies of their probabilities', () => {
    const noise = noiseOf('frequencies');
    const [draws, temperature] = [40_000, 1.5];
    const counts = Array.from({ length: 6 }, () => 0);
    for (let i = 0; i < draws; i++) counts[sampleToken(logits, 6, { ...plain, temperature }, noise(i)).token]! += 1;
    const sum = logits.reduce((total, logit) => total + Math.exp(logit / temperature), 0);
    counts.forEach((count, id) => {
      const p = Math.exp((logits[id] ?? 0) / temperature) / sum;
      expect(Math.abs(count - draws * p)).toBeLessThan(4 * Math.sqrt(draws * p * (1 - p)));
    });
  });

  it('refuses logits that are not finite', () => {
    expect(() => sampleToken(Float32Array.from([1, NaN]), 2, plain, 0.5)).toThrow(NonFiniteLogits);
    expect(() => sampleToken(Float32Array.from([1, Infinity]), 2, plain, 0.5)).toThrow(NonFiniteLogits);
  });
});
