/**
 * A token's logits beside random other rows: chunks, rebuilt caches, contexts around borders of pages, one to fifteen
 * rows. Why: on a processor with AVX2 only, 5 prompts of 18 tokens once gave other bits than each of them alone, in 1
 * of 153 calls of a run, and the run ended with other weights. One thread per op, as in an engine of a small machine.
 */

import { afterAll, describe, expect, it } from 'vitest';

process.env['TF_NUM_INTRAOP_THREADS'] = '1';
const { passLimits } = await import('../../../trainer/sampler/pass/graph/pass-limits.ts');
const { passesOf } = await import('../vectors/passes.ts');
const { randomIds, randomWeights, smallShape, uniformNoise } = await import('./random-policy.ts');
type SlotRow = import('../vectors/passes.ts').SlotRow;

const positions = 512;
const slots = 16;
/** Lengths of contexts: around the borders of pages, and one on the first page. */
const ends = [30, 122, 240, 372] as const;

const shapes = [
  { name: 'the shape of the starter', config: { ...smallShape, layers: 2, kvHeads: 2 } },
  { name: 'five query heads per key head', config: { ...smallShape, layers: 2, heads: 5, kvHeads: 1 } },
];
const kinds = [
  { way: 'compiled', kind: 'native' },
  { way: 'as a graph', kind: 'graph' },
] as const;

describe.each(shapes.flatMap((shape) => kinds.map((kind) => ({ ...shape, ...kind }))))(
  '$name, $way',
  async ({ config, kind }) => {
    const passes = await passesOf(config, randomWeights(config, 1), kind, slots, positions);
    const sequences = [1, 2, 3].map((seed) => randomIds(seed, 400, config.vocabSize));
    afterAll(() => passes.dispose());

    /** The bits of each row's last logits. */
    const pass = (rows: readonly SlotRow[]): string[] =>
      passes
        .of(...rows)
        .map((logits) => Buffer.from(logits.buffer, logits.byteOffset, 4 * config.vocabSize).toString('latin1'));
    const alone = sequences.map((tokens) => tokens.map((_, from) => pass([{ slot: 0, tokens, from, count: 1 }])[0]));

    it.each([1, 2])('gives the same in random company, seed %i', (seed) => {
      const next = uniformNoise(seed);
      const below = (count: number): number => Math.floor(((next() + 1) / 2) * count);
      const different: string[] = [];
      for (let batch = 0; batch < 20; batch++) {
        let rows = Array.from({ length: 1 + below(slots - 1) }, (_, i) => {
          const sequence = below(sequences.length);
          return {
            slot: 1 + i,
            sequence,
            tokens: sequences[sequence] ?? [],
            from: 0,
            until: (ends[below(ends.length)] ?? 1) + below(20),
          };
        });
        while (rows.length > 0) {
          const chosen = rows.filter(() => below(5) > 0);
          if (chosen.length === 0) continue;
          const width = 1 + below([1, 8, 20, Math.floor(512 / chosen.length)][below(4)] ?? 1);
          const parts = chosen.map(({ slot, tokens, from, until }) => ({
            slot,
            tokens,
            from,
            count: Math.min(width, 128, until - from),
          }));
          const found = pass(parts);
          chosen.forEach((row, i) => {
            row.from += parts[i]?.count ?? 0;
            if (found[i] !== alone[row.sequence]?.[row.from - 1])
              different.push(`${row.from} among ${parts.map(({ count }) => count).join(', ')}`);
          });
          rows = rows.filter(({ from, until }) => from < until);
        }
      }
      expect(different).toEqual([]);
    });

    it.each([6, 18])('gives the same among any number of prompts of %i tokens', (count) => {
      const tokens = sequences[0] ?? [];
      const different = Array.from({ length: slots }, (_, i) => i + 1).filter((rows) => {
        const found = pass(Array.from({ length: rows }, (_, slot) => ({ slot, tokens, from: 0, count })));
        return found.some((bits) => bits !== alone[0]?.[count - 1]);
      });
      expect(different).toEqual([]);
    });
  },
);

it.each(kinds)('gives the same in the largest passes of a wide policy, $way', async ({ kind }) => {
  const config = { ...smallShape, layers: 1, hiddenSize: 512, intermediateSize: 896, kvHeads: 2 };
  const limits = passLimits(config, { maxRows: 64, prefillTokens: 512 });
  expect(limits).toEqual({ maxRows: 64, prefillTokens: 240 });
  const passes = await passesOf(config, randomWeights(config, 1), kind, slots, 128);
  const tokens = randomIds(1, 120, config.vocabSize);
  const last = (rows: number, count: number): number[] =>
    passes
      .of(...Array.from({ length: rows }, (_, slot) => ({ slot, tokens, from: 0, count })))
      .flatMap((logits) => [...logits]);
  for (const [rows, count] of [
    [2, 120],
    [5, 48],
    [13, 18],
    [10, 24],
  ] as const) {
    const expected = last(1, count);
    expect(Array.from({ length: rows }, () => expected).flat()).toEqual(last(rows, count));
  }
  passes.dispose();
});
