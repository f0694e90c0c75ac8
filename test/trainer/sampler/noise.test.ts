import { describe, expect, it } from 'vitest';
import { noiseOf, philox } from '../../../trainer/sampler/noise.ts';

describe('philox', () => {
  // The known answers of Random123 1.14 (`kat_vectors`, philox4x32 with 10 rounds).
  it.each([
    { counter: [0, 0, 0, 0], key: [0, 0], wanted: [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8] },
    {
      counter: [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
      key: [0xffffffff, 0xffffffff],
      wanted: [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
    },
    {
      counter: [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      key: [0xa4093822, 0x299f31d0],
      wanted: [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    },
  ])('gives the published words for $counter', ({ counter, key, wanted }) => {
    expect(philox(counter as never, key as never)).toEqual(wanted);
  });
});

/** Chi-square over `bins` equal bins, in standard deviations from its mean. */
function deviation(values: readonly number[], bins: number): number {
  const counts = Array.from({ length: bins }, () => 0);
  for (const value of values) counts[Math.floor(value * bins)]! += 1;
  const expected = values.length / bins;
  const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  return (chiSquare - (bins - 1)) / Math.sqrt(2 * (bins - 1));
}

describe('noiseOf', () => {
  const positions = Array.from({ length: 20_000 }, (_, i) => i);

  it('depends on key and position alone', () => {
    const noise = noiseOf('seed/1/task/2');
    const backwards = [...positions].reverse().map(noise).reverse();
    expect(positions.map(noiseOf('seed/1/task/2'))).toEqual(backwards);
    expect(noise(7)).not.toBe(noiseOf('seed/1/task/3')(7));
    expect(noise(7)).not.toBe(noise(7 + 2 ** 32));
  });

  it('is uniform in [0, 1) over positions, and over keys', () => {
    const along = positions.map(noiseOf('one key'));
    const across = positions.map((i) => noiseOf(`run/step/task-${i}/turn`)(5));
    for (const values of [along, across]) {
      expect(Math.min(...values)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...values)).toBeLessThan(1);
      expect(Math.abs(deviation(values, 100))).toBeLessThan(4);
    }
  });

  it('has no correlation between neighbours, in position or in key', () => {
    const correlation = (x: readonly number[], y: readonly number[]): number =>
      (12 * x.reduce((sum, value, i) => sum + (value - 0.5) * ((y[i] ?? 0) - 0.5), 0)) / x.length;
    const along = positions.map(noiseOf('k'));
    const across = positions.map((i) => noiseOf(`k${i}`)(0));
    for (const values of [along, across]) {
      expect(Math.abs(correlation(values.slice(0, -1), values.slice(1)))).toBeLessThan(4 / Math.sqrt(values.length));
    }
    // Pairs fill the square evenly: 10 x 10 cells.
    const cells = along.slice(0, -1).map((x, i) => (Math.floor(x * 10) + (along[i + 1] ?? 0)) / 10);
    expect(Math.abs(deviation(cells, 100))).toBeLessThan(4);
  });
});
