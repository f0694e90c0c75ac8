/**
 * Hunts a result that depends on its neighbours: a resumed run that ends with other weights because a row was decoded
 * in another batch, or its cache was rebuilt. It asserts nothing about other processors or other builds of TensorFlow.
 */

import { afterAll, describe, expect, it } from 'vitest';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { type SlotRow, passesOf } from '../vectors/passes.ts';
import { randomIds, randomWeights, smallShape } from './random-policy.ts';

const shapes: Array<{ name: string; config: ModelConfig; alwaysShift: boolean }> = [
  { name: 'a small policy', config: smallShape, alwaysShift: false },
  { name: 'large scores', config: { ...smallShape, layers: 2 }, alwaysShift: true },
  {
    name: 'two key heads',
    config: { ...smallShape, layers: 2, kvHeads: 2, tiedEmbeddings: false },
    alwaysShift: false,
  },
  {
    name: 'sizes that no vector register divides',
    config: {
      ...smallShape,
      layers: 2,
      hiddenSize: 72,
      heads: 3,
      kvHeads: 3,
      headDim: 10,
      intermediateSize: 101,
      vocabSize: 333,
    },
    alwaysShift: false,
  },
  {
    name: 'Qwen2: biases, heads that are not normalised',
    config: { ...smallShape, family: 'qwen2', layers: 2, kvHeads: 2, tiedEmbeddings: false },
    alwaysShift: false,
  },
  {
    name: 'Llama with scaled rotary embeddings, sizes that no vector register divides',
    config: {
      ...smallShape,
      family: 'llama',
      layers: 2,
      hiddenSize: 72,
      heads: 6,
      kvHeads: 3,
      headDim: 10,
      intermediateSize: 101,
      vocabSize: 333,
      ropeScaling: { type: 'llama3', factor: 8, lowFreqFactor: 1, highFreqFactor: 4, originalMaxPositions: 64 },
    },
    alwaysShift: false,
  },
  {
    name: 'wide layers',
    config: { ...smallShape, layers: 1, hiddenSize: 256, headDim: 64, intermediateSize: 1024 },
    alwaysShift: true,
  },
];

const length = 150;
const slots = 34;

const cases = shapes.flatMap(({ name, config, alwaysShift }) => [
  { name: `${name}, compiled`, config, kind: 'native' as const },
  { name: `${name}, as a graph`, config, kind: alwaysShift ? ('graph, shifted' as const) : ('graph' as const) },
]);

describe.each(cases)('$name', async ({ config, kind }) => {
  const passes = await passesOf(config, randomWeights(config, 1), kind, slots, 768);
  const sequences = Array.from({ length: slots }, (_, i) => randomIds(i, 720, config.vocabSize));
  afterAll(() => passes.dispose());

  const tokensOf = (slot: number): number[] => sequences[slot] ?? [];
  const pass = (rows: readonly SlotRow[]): Int32Array[] =>
    passes.of(...rows).map((logits) => new Int32Array(logits.buffer, logits.byteOffset, config.vocabSize));
  const row = (slot: number, from: number, count: number, tokens = tokensOf(slot)): SlotRow => ({
    slot,
    tokens,
    from,
    count,
  });
  const alone = Array.from({ length }, (_, t) => pass([row(0, t, 1)])[0] ?? new Int32Array());
  /** Positions whose logits differ from those of decoding alone. */
  const different = (found: ReadonlyArray<readonly [number, Int32Array | undefined]>): number[] =>
    found.filter(([t, bits]) => bits === undefined || !alone[t]?.every((b, i) => b === bits[i])).map(([t]) => t);

  it.each([3, 7, 32])('decodes the same among %i rows of other lengths, at any place', (batch) => {
    const start = (slot: number): number => (slot === 0 ? 0 : (slot * 83) % 560);
    for (let slot = 1; slot < batch; slot++) {
      for (let from = 0; from < start(slot); from += 128) pass([row(slot, from, Math.min(128, start(slot) - from))]);
    }
    const found = Array.from({ length }, (_, t) => {
      const order = Array.from({ length: batch }, (_, i) => (i + t) % batch);
      return [t, pass(order.map((slot) => row(slot, start(slot) + t, 1)))[order.indexOf(0)]] as const;
    });
    expect(different(found)).toEqual([]);
  });

  it('gives the same by prefill in one call, alone and beside others', () => {
    const found = Array.from({ length: 30 }, (_, i) => 2 + 4 * i).map((count) => {
      const others = [row(1, 0, Math.max(1, count - 5)), row(2, 0, Math.ceil(count / 3))];
      return [
        [count - 1, pass([row(3, 0, count, tokensOf(0))])[0]],
        [count - 1, pass([...others, row(4, 0, count, tokensOf(0))])[2]],
      ] as const;
    });
    expect(different(found.flat())).toEqual([]);
  });

  it('gives the same when its cache is rebuilt in pieces, and decoding continues from there', () => {
    for (const piece of [1, 9, 61, 128]) {
      for (let from = 0; from < 100; from += piece) pass([row(5, from, Math.min(piece, 100 - from), tokensOf(0))]);
      const found = Array.from(
        { length: length - 100 },
        (_, i) => [100 + i, pass([row(5, 100 + i, 1, tokensOf(0))])[0]] as const,
      );
      expect(different(found)).toEqual([]);
    }
  });

  it('gives the same from a copy of another slot', () => {
    pass([row(6, 0, 128, tokensOf(0))]);
    for (const [i, from] of passes.blocksOf(6).entries()) passes.decoder.copyBlock(from, passes.blocksOf(7)[i] ?? from);
    expect(different([[140, pass([row(7, 90, 51, tokensOf(0))])[0]]])).toEqual([]);
  });

  it('gives the same at the end of a long context, decoded and by prefill', () => {
    const prefill = (slot: number, until: number): Int32Array | undefined => {
      let last: Int32Array | undefined;
      for (let from = 0; from < until; from += 128)
        [last] = pass([row(slot, from, Math.min(128, until - from), tokensOf(8))]);
      return last;
    };
    prefill(9, 640);
    for (let t = 640; t < 700; t++) {
      const [decoded] = pass([row(9, t, 1, tokensOf(8)), row(1, t % 50, 1)]);
      if (t % 20 === 19) expect(prefill(10, t + 1)).toEqual(decoded);
    }
  });
});
