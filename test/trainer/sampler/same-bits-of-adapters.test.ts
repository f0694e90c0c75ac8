/**
 * Hunts a result of base and adapter that depends on its company: other adapters and the bare base in the pass, chunks,
 * threads, a rebuilt cache; and one that differs from the merged policy's by more than rounding.
 */

import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { merged } from '../../../trainer/lora/merged-weights.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { gathered } from '../../../trainer/model/weights.ts';
import type { DecoderAdapter, PassResult, PassRow } from '../../../trainer/sampler/pass/decoder.ts';
import { nativeDecoderKind } from '../../../trainer/sampler/pass/native/native-decoder.ts';
import { randomAdapter } from './random-adapter.ts';
import { randomIds, randomWeights, smallShape, uniformNoise } from './random-policy.ts';

const positions = 128;
const slots = 16;
const perSlot = positions / 16;
const environment = { ...process.env };
afterEach(() => {
  process.env = { ...environment };
});

const shapes: ReadonlyArray<{ readonly name: string; readonly config: ModelConfig }> = [
  { name: 'Qwen3, a tied head', config: { ...smallShape, layers: 2, kvHeads: 2 } },
  {
    name: 'Qwen2 with biases, sizes that no vector register divides',
    config: {
      ...smallShape,
      family: 'qwen2',
      layers: 2,
      hiddenSize: 72,
      heads: 6,
      kvHeads: 3,
      headDim: 10,
      intermediateSize: 101,
      vocabSize: 333,
      tiedEmbeddings: false,
    },
  },
  {
    name: 'Llama, wide layers',
    config: {
      ...smallShape,
      family: 'llama',
      layers: 1,
      hiddenSize: 320,
      headDim: 64,
      intermediateSize: 700,
      tiedEmbeddings: false,
    },
  },
];

interface Opened {
  /** Logits of each row's last token, as bits. */
  readonly pass: (...rows: readonly Row[]) => string[];
  readonly raw: (rows: readonly PassRow[]) => PassResult[];
  readonly adapters: ReadonlyArray<DecoderAdapter | undefined>;
  readonly dispose: () => void;
}

interface Row {
  readonly slot: number;
  readonly tokens: readonly number[];
  readonly from: number;
  readonly count: number;
  /** Index in `adapters`; 0 is the bare base. */
  readonly adapter: number;
}

const adaptersOf = (config: ModelConfig) => [
  randomAdapter(config, { seed: 1, rank: 1 }),
  randomAdapter(config, { seed: 2, rank: 4, alpha: 3 }),
  randomAdapter(config, { seed: 3, rank: 8, targetModules: ['q_proj', 'v_proj', 'down_proj'] }),
  randomAdapter(config, {
    seed: 4,
    rank: 32,
    ...(config.tiedEmbeddings ? {} : { targetModules: ['k_proj', 'o_proj', 'gate_proj', 'lm_head'] }),
  }),
];

const blocksOf = (slot: number): number[] =>
  Array.from({ length: perSlot }, (_, i) => (perSlot - 1 - i) * slots + slot);
const bitsOf = (logits: Float32Array): string => Buffer.from(logits.slice().buffer).toString('latin1');

async function open(config: ModelConfig, threads = 1): Promise<Opened> {
  process.env['TF_NUM_INTRAOP_THREADS'] = String(threads);
  const kind = nativeDecoderKind();
  const model = await kind.model(config, randomWeights(config, 1), positions);
  const decoder = kind.decoder(config, positions, slots * perSlot);
  const packed = adaptersOf(config).map((adapter) => kind.adapter?.(config, positions, adapter));
  const adapters = [undefined, ...packed];
  const raw = (rows: readonly PassRow[]) => decoder.forward(model, rows);
  return {
    adapters,
    raw,
    pass: (...rows) =>
      raw(
        rows.map(({ slot, adapter, ...row }) => ({
          ...row,
          adapter: adapters[adapter],
          blocks: blocksOf(slot),
          want: 'logits',
        })),
      ).map((result) => bitsOf('logits' in result ? (result.logits[0] ?? new Float32Array()) : new Float32Array())),
    dispose: () => [decoder, model, ...packed].forEach((one) => one?.dispose()),
  };
}

describe.each(shapes)('$name', async ({ config }) => {
  const opened = await open(config);
  afterAll(() => opened.dispose());
  const tokens = randomIds(7, 100, config.vocabSize);
  /** By adapter and position, decoded alone. */
  const alone = opened.adapters.map((_, adapter) =>
    tokens.map((_token, from) => opened.pass({ slot: 0, tokens, from, count: 1, adapter })[0]),
  );

  it('gives each adapter other logits than the base and than each other', () => {
    expect(new Set(alone.map((bits) => bits[50])).size).toBe(5);
  });

  it('gives the same in one pass with the others, in any order, and in chunks', () => {
    const next = uniformNoise(11);
    const below = (count: number): number => Math.floor(((next() + 1) / 2) * count);
    const different: string[] = [];
    for (let batch = 0; batch < 12; batch++) {
      let rows = Array.from({ length: 2 + below(slots - 2) }, (_, slot) => ({
        slot,
        adapter: below(5),
        from: 0,
        until: 20 + below(80),
      }));
      while (rows.length > 0) {
        const parts = rows
          .filter(() => below(5) > 0)
          .map((row) => ({ row, count: Math.min(1 + below([1, 8, 40][below(3)] ?? 1), row.until - row.from) }));
        if (parts.length === 0) continue;
        const found = opened.pass(
          ...parts.map(({ row: { slot, adapter, from }, count }) => ({ slot, adapter, from, count, tokens })),
        );
        for (const [i, { row, count }] of parts.entries()) {
          row.from += count;
          if (found[i] !== alone[row.adapter]?.[row.from - 1]) different.push(`adapter ${row.adapter} at ${row.from}`);
        }
        rows = rows.filter(({ from, until }) => from < until);
      }
    }
    expect(different).toEqual([]);
  });

  it('gives the same by prefill, every position, beside others, for any number of threads', async () => {
    for (const threads of [1, 2, 5]) {
      const other = threads === 1 ? opened : await open(config, threads);
      const rows = [0, 1, 2, 3, 4].map((i): PassRow => ({
        tokens,
        from: 0,
        count: 90,
        blocks: blocksOf(i),
        adapter: other.adapters[i],
        want: 'every',
      }));
      const found = other.raw(rows).map((result) => ('logits' in result ? result.logits.map(bitsOf) : []));
      if (threads > 1) other.dispose();
      for (const [i, bits] of found.entries())
        expect(bits.every((one, at) => one === alone[i]?.[at]) && bits.length === 90).toBe(true);
    }
  });

  it('is the merged policy to rounding', async () => {
    const kind = nativeDecoderKind();
    for (const [i, adapter] of adaptersOf(config).entries()) {
      const weights = await gathered(merged(randomWeights(config, 1), adapter, config));
      const model = await kind.model(config, weights, positions);
      const decoder = kind.decoder(config, positions, perSlot);
      const row = { tokens, from: 0, count: 60, blocks: blocksOf(0).map((_, at) => at), want: 'every' } as const;
      const [wanted] = decoder.forward(model, [row]);
      const [found] = opened.raw([{ ...row, blocks: blocksOf(3), adapter: opened.adapters[i + 1] }]);
      if (wanted === undefined || found === undefined || !('logits' in wanted) || !('logits' in found))
        throw new Error('no logits');
      let [most, largest] = [0, 0];
      for (const [t, logits] of wanted.logits.entries())
        for (const [id, logit] of logits.entries()) {
          most = Math.max(most, Math.abs(logit - (found.logits[t]?.[id] ?? Number.NaN)));
          largest = Math.max(largest, Math.abs(logit));
        }
      expect(most / largest).toBeLessThan(2e-5);
      decoder.dispose();
      model.dispose();
    }
  });
});

it('an adapter for another shape is refused before it is used', async () => {
  const kind = nativeDecoderKind();
  const { config } = shapes[0]!;
  const adapter = randomAdapter(config, { seed: 1, rank: 2 });
  const other = { ...config, intermediateSize: 400 };
  expect(() => kind.adapter?.(other, positions, adapter)).toThrow(
    /mlp\.gate_proj\.lora_B\.weight has shape \[384,2\], the configuration says \[400,2\]/,
  );
  expect(() => kind.adapter?.(config, positions, { ...adapter, json: { ...adapter.json, use_dora: true } })).toThrow(
    'use_dora',
  );
  const model = await kind.model(other, randomWeights(other, 1), positions);
  const decoder = kind.decoder(other, positions, 8);
  const packed = kind.adapter?.(config, positions, adapter);
  const row: PassRow = { tokens: [1, 2], from: 0, count: 2, blocks: [0], adapter: packed, want: 'logits' };
  expect(() => decoder.forward(model, [row])).toThrow('an adapter has another shape than the model');
  packed?.dispose();
  expect(() => decoder.forward(model, [row])).toThrow('disposed already');
  decoder.dispose();
  model.dispose();
});
