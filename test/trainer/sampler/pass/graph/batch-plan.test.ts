/**
 * Shapes of a pass. Why: on a processor with AVX2 only, a product whose row count leaves a remainder of one to three
 * has other bits, and a machine with AVX-512 does not show it. Asserted: every row count that a product sees.
 */
import { expect, it } from 'vitest';
import { type BatchRow, planBatch } from '../../../../../trainer/sampler/pass/graph/batch-plan.ts';

const row = (from: number, count: number): BatchRow => ({
  pages: [0, 1, 2, 3, 4, 5, 6, 7],
  tokens: Array.from({ length: from + count }, () => 1),
  from,
  count,
});
const layout = (group: number) => ({ pages: 8, kvHeads: 2, group });
/** True if there is no remainder, or one of four or five rows. */
const whole = (rows: number): boolean => rows >= 4 && [0, 4, 5].includes(rows % 6);

it.each([1, 2, 3, 4, 5, 7, 8])(
  'no product has a remainder of one to three rows, with %i query heads per key head',
  (group) => {
    for (let rows = 1; rows <= 70; rows += 1) {
      const { tokens, last, queries, width } = planBatch(
        layout(group),
        Array.from({ length: rows }, () => row(5, 1)),
      );
      expect({ rows, tokens: tokens.length % 6, last: last.length % 6, queries: whole(queries), width }).toEqual({
        rows,
        tokens: 0,
        last: 0,
        queries: true,
        width: 1,
      });
      expect(queries).toBeGreaterThanOrEqual(group);
    }
    for (let count = 2; count <= 128; count += 1) {
      const { tokens, last, queries, width } = planBatch(layout(group), [row(0, count), row(3, 1)]);
      expect({ count, tokens: tokens.length % 6, last: last.length % 6, queries: whole(queries) }).toEqual({
        count,
        tokens: 0,
        last: 0,
        queries: true,
      });
      expect([width >= count, queries]).toEqual([true, width * group]);
    }
  },
);

it.each([1, 2, 3, 4, 5, 7, 13])(
  'beyond 72 rows a product has a multiple of twelve, with %i query heads per key head',
  (group) => {
    const fits = (rows: number): boolean => rows <= 72 || rows % 12 === 0;
    for (let rows = 1; rows <= 64; rows += 1) {
      for (let count = 1; count * rows <= 512 && count <= 128; count += 1) {
        const every = { ...row(100, count), every: true };
        const { tokens, last, queries } = planBatch(layout(group), [
          every,
          ...Array.from({ length: rows - 1 }, () => row(3, count)),
        ]);
        expect({ rows, count, fit: [tokens.length, last.length, queries].map(fits) }).toEqual({
          rows,
          count,
          fit: [true, true, true],
        });
      }
    }
  },
);

it('pads five prompts of 18 tokens to six, and not four', () => {
  const tokens = (rows: number): number =>
    planBatch(
      layout(2),
      Array.from({ length: rows }, () => row(111, 18)),
    ).tokens.length;
  expect([tokens(4), tokens(5)]).toEqual([72, 108]);
});
