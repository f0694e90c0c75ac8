/** Dividing training data: no sequence is lost or doubled, budgets hold, the seed decides. */

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { microBatches, shuffled, split } from '../../../trainer/data/batching.ts';
import { paddedLength, tokenBatch } from '../../../trainer/model/token-batch.ts';

const sequence = (length: number) => ({
  tokens: Array.from({ length }, (_, i) => i),
  mask: Array.from({ length }, () => 1),
});

describe('batching', () => {
  test('a shuffle is a permutation that its key determines', () => {
    expect([...shuffled(50, 'a')].sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(shuffled(50, 'a')).toEqual(shuffled(50, 'a'));
    expect(shuffled(50, 'a')).not.toEqual(shuffled(50, 'b'));
  });

  test('a split keeps the order, and parts differ by at most one', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.integer({ min: 1, max: 9 }), (items, parts) => {
        const cut = split(items, parts);
        expect(cut.flat()).toEqual(items);
        const sizes = cut.map((part) => part.length);
        expect(sizes).toHaveLength(Math.min(parts, items.length));
        if (sizes.length > 0) expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test('micro-batches hold every sequence once and keep the budget of padded tokens', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 2, max: 400 })), fc.integer({ min: 16, max: 2000 }), (lengths, budget) => {
        const batches = microBatches(lengths.map(sequence), { microBatchTokens: budget });
        expect(
          batches
            .flat()
            .map((s) => s.tokens.length)
            .sort((a, b) => a - b),
        ).toEqual([...lengths].sort((a, b) => a - b));
        for (const batch of batches) {
          const width = paddedLength(Math.max(...batch.map((s) => s.tokens.length)) - 1);
          if (batch.length > 1) expect(batch.length * width).toBeLessThanOrEqual(budget);
        }
      }),
    );
  });

  test('the labels of a batch are the tokens after each position, by row, and never the first token', () => {
    const batch = tokenBatch([
      { tokens: [7, 8, 9], mask: [1, 0, 1] },
      { tokens: [5, 6], mask: [1, 1] },
    ]);
    expect([batch.batch, batch.length]).toEqual([2, 16]);
    expect([...batch.ids.slice(0, 3), ...batch.ids.slice(16, 18)]).toEqual([7, 8, 0, 5, 0]);
    expect([...batch.positions]).toEqual([1, 16]);
    expect([...batch.labels]).toEqual([9, 6]);
    expect([...batch.rowOf]).toEqual([0, 1]);
    expect([...batch.indexOf]).toEqual([2, 1]);
  });
});
