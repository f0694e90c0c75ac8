/** The compiled decoder alone: draws against the same draws in TypeScript, threads, and calls that must be refused. */

import { afterEach, describe, expect, it } from 'vitest';
import type { ModelConfig } from '../../../../../trainer/model/config.ts';
import type { NamedPiece, WeightPieces } from '../../../../../trainer/model/weights.ts';
import type { PassResult, PassRow } from '../../../../../trainer/sampler/pass/decoder.ts';
import { nativeDecoderKind } from '../../../../../trainer/sampler/pass/native/native-decoder.ts';
import { sampleToken } from '../../../../../trainer/sampler/sample-token.ts';
import { randomIds, randomWeights, smallShape, uniformNoise } from '../../random-policy.ts';

const wide: ModelConfig = {
  ...smallShape,
  layers: 1,
  hiddenSize: 512,
  intermediateSize: 900,
  kvHeads: 2,
  vocabSize: 1003,
};
const ids = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const opened: Array<{ dispose(): void }> = [];
const environment = { ...process.env };

afterEach(() => {
  for (const one of opened.splice(0)) one.dispose();
  process.env = { ...environment };
});

async function open(
  config: ModelConfig,
  threads = 1,
  weights: WeightPieces = randomWeights(config, 1),
): Promise<(rows: readonly PassRow[]) => PassResult[]> {
  process.env['TF_NUM_INTRAOP_THREADS'] = String(threads);
  const kind = nativeDecoderKind();
  const model = await kind.model(config, weights, 256);
  opened.push(model);
  const decoder = kind.decoder(config, 256, 64);
  opened.push(decoder);
  return (rows) => decoder.forward(model, rows);
}

const row = (tokens: readonly number[], want: PassRow['want'], first = 0): PassRow => ({
  tokens,
  from: 0,
  count: tokens.length,
  blocks: ids(Math.ceil(tokens.length / 16)).map((i) => first + i),
  want,
});

function logitsOf(result: PassResult | undefined): Float32Array {
  if (result === undefined || !('logits' in result)) throw new Error('no logits');
  return result.logits[0] ?? new Float32Array();
}

describe('a draw', () => {
  it('is the same as in TypeScript, with the same log-probability', async () => {
    const pass = await open(smallShape);
    const next = uniformNoise(3);
    for (let i = 0; i < 300; i++) {
      const tokens = randomIds(i, 1 + (i % 20), smallShape.vocabSize);
      const draw = {
        temperature: i % 5 === 0 ? 0 : 0.3 + (next() + 1),
        uniform: (next() + 1) / 2,
        limit: i % 3 === 0 ? 17 : smallShape.vocabSize,
      };
      const [logits] = pass([row(tokens, 'logits')]);
      const expected = sampleToken(
        logitsOf(logits),
        draw.limit,
        { temperature: draw.temperature, topK: 0, topP: 1, maxTokens: 1 },
        draw.uniform,
      );
      expect(pass([row(tokens, draw)])).toEqual([{ drawn: expected }]);
    }
  });

  it('by logits that are not finite gives no token', async () => {
    const weights = randomWeights(smallShape, 1);
    weights.get('model.norm.weight')?.data.fill(Number.NaN, 3, 4);
    expect((await open(smallShape, 1, weights))([row([1, 2], { temperature: 1, uniform: 0.5, limit: 512 })])).toEqual([
      { drawn: undefined },
    ]);
  });
});

describe('threads', () => {
  it('of any number give the same bits', async () => {
    const rows = ids(6).map((i) =>
      row(randomIds(i, 16 * (i + 1) - 3, wide.vocabSize), i === 5 ? 'every' : 'logits', 10 * i),
    );
    const bits = async (threads: number): Promise<string[]> =>
      (await open(wide, threads))(rows).flatMap((result) =>
        'logits' in result ? result.logits.map((logits) => Buffer.from(logits.slice().buffer).toString('latin1')) : [],
      );
    const alone = await bits(1);
    expect(alone).toHaveLength(5 + 93);
    for (const threads of [2, 3, 7]) expect((await bits(threads)).every((one, i) => one === alone[i])).toBe(true);
  });
});

describe('a row', () => {
  it('that does not fit its blocks, the model or the cache is refused', async () => {
    const forward = await open(smallShape);
    const pass = (given: Partial<PassRow>) => () => forward([{ ...row([1, 2, 3], 'logits'), ...given }]);
    expect(pass({ count: 4 })).toThrow('tokens 0 to 4 of 3 cannot be computed');
    expect(pass({ count: 0 })).toThrow(RangeError);
    expect(pass({ blocks: [] })).toThrow('0 blocks have no room for 3 positions');
    expect(pass({ blocks: [64] })).toThrow('there is no block 64');
    expect(pass({ tokens: [1, 512, 3] })).toThrow('there is no token 512');
    for (const limit of [Number.NaN, 0, 513])
      expect(pass({ want: { temperature: 0, uniform: 0, limit } })).toThrow(`ids below ${limit} cannot be drawn`);
    expect(pass({ tokens: randomIds(1, 300, 10), count: 300, blocks: ids(20) })).toThrow(
      'tokens 0 to 300 of 300 cannot be computed',
    );
  });

  it('that only fills the cache gives no logits', async () => {
    expect((await open(smallShape))([row([1, 2, 3], 'nothing')])).toEqual([{ logits: [] }]);
  });
});

/** The same weights, a few rows at a time, in one array that is overwritten. */
async function* inPieces(config: ModelConfig): AsyncGenerator<NamedPiece> {
  const buffer = new Float32Array(2 ** 15);
  for (const [name, { shape, data }] of randomWeights(config, 1)) {
    const step = shape.length === 1 ? 5 : 7 * shape[1]!;
    for (let from = 0; from < data.length; from += step) {
      buffer.set(data.subarray(from, from + step));
      yield [name, { shape, data: buffer.subarray(0, Math.min(step, data.length - from)), from }];
    }
  }
}

const families: ReadonlyArray<readonly [string, ModelConfig]> = [
  ['Qwen3, tied', wide],
  ['Qwen3, untied, heads of 18', { ...wide, hiddenSize: 90, headDim: 18, tiedEmbeddings: false }],
  ['Qwen2', { ...wide, family: 'qwen2', layers: 2 }],
  ['Llama', { ...wide, family: 'llama', tiedEmbeddings: false }],
];
it.each(families)('weights that are read in pieces give the bits of weights in memory: %s', async (_, config) => {
  const rows = [row(randomIds(1, 40, config.vocabSize), 'every')];
  expect((await open(config, 1, inPieces(config)))(rows)).toEqual((await open(config))(rows));
});

it('weights of another shape are refused by name', async () => {
  const weights = randomWeights(smallShape, 1);
  weights.delete('model.layers.3.mlp.up_proj.weight');
  await expect(open(smallShape, 1, weights)).rejects.toThrow(
    'tensor model.layers.3.mlp.up_proj.weight: config.json wants [384, 128], the weights have none',
  );
});
