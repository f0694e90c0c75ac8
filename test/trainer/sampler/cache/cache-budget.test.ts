import { expect, it } from 'vitest';
import { blocksWithin, cacheBudget } from '../../../../trainer/sampler/cache/cache-budget.ts';
import { smallShape } from '../random-policy.ts';

it('takes the variable in MiB, else a sixteenth of the memory and a GiB at most, and refuses other values', () => {
  expect(cacheBudget({ LONGHAUL_KV_CACHE_MIB: '48' })).toBe(48 * 2 ** 20);
  expect(cacheBudget({})).toBe(cacheBudget({ LONGHAUL_KV_CACHE_MIB: '' }));
  expect(cacheBudget({})).toBeGreaterThan(0);
  expect(cacheBudget({})).toBeLessThanOrEqual(2 ** 30);
  for (const value of ['0', '-1', '1.5', 'much'])
    expect(() => cacheBudget({ LONGHAUL_KV_CACHE_MIB: value })).toThrow(`LONGHAUL_KV_CACHE_MIB = "${value}"`);
});

it('counts whole blocks, and reports the size that the longest context needs if it does not fit', () => {
  const position = 4 * 2 * smallShape.layers * smallShape.kvHeads * smallShape.headDim;
  expect(blocksWithin(100 * 16 * position + 1, smallShape, 1024, 16)).toBe(100);
  expect(() => blocksWithin(63 * 16 * position, smallShape, 1024, 16)).toThrow(
    'one context of 1024 tokens of this model needs 1 MiB: raise LONGHAUL_KV_CACHE_MIB',
  );
});
