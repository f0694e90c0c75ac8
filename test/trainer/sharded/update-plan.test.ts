/** Hunts micro-batches that no worker computes, or two; and unequal shards, for which other workers must wait. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { assignShards } from '../../../trainer/sharded/update-plan.ts';

const ofLengths = (...lengths: number[]) =>
  lengths.map((length) => ({ tokens: Array.from({ length: length + 1 }, () => 1) }));
const pass = fc
  .array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 6 })
  .map((lengths) => ofLengths(...lengths));
const tokensOf = (one: ReadonlyArray<{ tokens: readonly number[] }>) =>
  one.reduce((sum, { tokens }) => sum + tokens.length - 1, 0);

it('assigns each micro-batch to one shard, in order; sizes of shards differ by one micro-batch at most', () => {
  fc.assert(
    fc.property(fc.array(pass, { minLength: 1, maxLength: 20 }), fc.integer({ min: 1, max: 6 }), (micro, shards) => {
      const shares = assignShards(micro, shards, true);
      expect(shares.flat().toSorted((a, b) => a - b)).toEqual(micro.map((_, i) => i));
      for (const share of shares) expect(share).toEqual(share.toSorted((a, b) => a - b));
      expect(shares.length).toBe(Math.min(shards, micro.length));
      const costs = shares.map((share) => share.reduce((sum, i) => sum + tokensOf(micro[i]!), 0));
      expect(Math.max(...costs) - Math.min(...costs)).toBeLessThanOrEqual(Math.max(...micro.map(tokensOf)));
    }),
  );
});

it('counts padding, and none if sequences are packed', () => {
  // With padding, the first costs as much as four of 64; packed, little more than one.
  const micro = [ofLengths(64, 1, 1, 1), ofLengths(64), ofLengths(64), ofLengths(64)];
  expect(assignShards(micro, 2)).toEqual([[0], [1, 2, 3]]);
  expect(assignShards(micro, 2, true)).toEqual([
    [0, 3],
    [1, 2],
  ]);
});
