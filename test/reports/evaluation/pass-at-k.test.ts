/** Hunts a pass@k that is biased or overflows: it is compared with counts of all subsets and with exact integers. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { passAtK } from '../../../reports/evaluation/score-cell.ts';

/** The share of all subsets of k samples that contain a pass, by counting. */
function byCounting(samples: number, passed: number, k: number): number {
  let [subsets, withPass] = [0, 0];
  for (let set = 0; set < 2 ** samples; set += 1) {
    const members = Array.from({ length: samples }, (_, i) => i).filter((i) => (set & (1 << i)) !== 0);
    if (members.length !== k) continue;
    subsets += 1;
    if (members.some((i) => i < passed)) withPass += 1;
  }
  return withPass / subsets;
}

function choose(n: bigint, k: bigint): bigint {
  if (k < 0n || k > n) return 0n;
  let result = 1n;
  for (let i = 1n; i <= k; i += 1n) result = (result * (n - k + i)) / i;
  return result;
}

const counts = (most: number) =>
  fc
    .integer({ min: 1, max: most })
    .chain((samples) =>
      fc.record({
        samples: fc.constant(samples),
        passed: fc.integer({ min: 0, max: samples }),
        k: fc.integer({ min: 1, max: samples }),
      }),
    );

it('is the share of subsets with a pass', () => {
  fc.assert(
    fc.property(counts(9), ({ samples, passed, k }) => {
      expect(passAtK(samples, passed, k)).toBeCloseTo(byCounting(samples, passed, k), 12);
    }),
  );
});

it('equals 1 − C(n−c, k) / C(n, k) in exact integers, even if the binomials overflow doubles', () => {
  fc.assert(
    fc.property(counts(3000), ({ samples, passed, k }) => {
      const [n, c, size] = [BigInt(samples), BigInt(passed), BigInt(k)];
      const scale = 10n ** 18n;
      const exact = Number(scale - (choose(n - c, size) * scale) / choose(n, size)) / 1e18;
      expect(passAtK(samples, passed, k)).toBeCloseTo(exact, 9);
    }),
    { numRuns: 40 },
  );
});

it('grows with k and with passes; at k = 1 it is the rate', () => {
  fc.assert(
    fc.property(counts(40), ({ samples, passed, k }) => {
      const value = passAtK(samples, passed, k);
      expect(passAtK(samples, passed, 1)).toBeCloseTo(passed / samples, 12);
      if (k > 1) expect(value).toBeGreaterThanOrEqual(passAtK(samples, passed, k - 1) - 1e-12);
      if (passed > 0) expect(value).toBeGreaterThanOrEqual(passAtK(samples, passed - 1, k) - 1e-12);
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThanOrEqual(1);
    }),
  );
});

it.each([
  [4, 2, 5],
  [4, 5, 1],
  [4, 1, 0],
  [0, 0, 1],
])('of %i samples, %i passes and k = %i is refused', (samples, passed, k) => {
  expect(() => passAtK(samples, passed, k)).toThrow(RangeError);
});
