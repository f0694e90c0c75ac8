import { totalmem } from 'node:os';
import { expect, it } from 'vitest';
import {
  blocksWithin,
  cacheBudget,
  cacheBytesPerToken,
  contextBound,
  contextWithin,
  GRAPH_LAYOUT,
  NATIVE_LAYOUT,
  adapterBudget,
} from '../../../../trainer/sampler/cache/cache-budget.ts';
import { smallShape } from '../random-policy.ts';

const position = 4 * 2 * smallShape.layers * smallShape.kvHeads * smallShape.headDim;

it('takes the variable in MiB, else a sixteenth of the memory, on a GPU a GiB, and refuses other values', () => {
  expect(cacheBudget({ LONGHAUL_KV_CACHE_MIB: '48' })).toBe(48 * 2 ** 20);
  expect(cacheBudget({ LONGHAUL_KV_CACHE_MIB: '48' }, true)).toBe(48 * 2 ** 20);
  expect(cacheBudget({})).toBe(cacheBudget({ LONGHAUL_KV_CACHE_MIB: '' }));
  expect(cacheBudget({})).toBeGreaterThan(0);
  expect(cacheBudget({})).toBeLessThanOrEqual(totalmem() / 16);
  expect(cacheBudget({}, true)).toBe(2 ** 30);
  for (const value of ['0', '-1', '1.5', 'much'])
    expect(() => cacheBudget({ LONGHAUL_KV_CACHE_MIB: value })).toThrow(`LONGHAUL_KV_CACHE_MIB = "${value}"`);
});

it('takes the memory for adapters from its variable, else a 32nd of the memory', () => {
  expect(adapterBudget({ LONGHAUL_ADAPTERS_MIB: '48' })).toBe(48 * 2 ** 20);
  expect(adapterBudget({ LONGHAUL_KV_CACHE_MIB: '48' })).toBe(adapterBudget({}));
  expect(adapterBudget({})).toBeLessThanOrEqual(totalmem() / 32);
  expect(() => adapterBudget({ LONGHAUL_ADAPTERS_MIB: '0' })).toThrow('LONGHAUL_ADAPTERS_MIB = "0"');
});

it('counts whole blocks, and reports the size of one block if it does not fit', () => {
  expect(cacheBytesPerToken(smallShape)).toBe(position);
  expect(blocksWithin(100 * 16 * position + 1, smallShape, 16)).toBe(100);
  expect(() => blocksWithin(16 * position - 1, smallShape, 16)).toThrow('raise LONGHAUL_KV_CACHE_MIB to 1 or more');
});

it('gives a policy the context of its configuration, or what the memory holds in whole blocks', () => {
  const roomy = contextWithin(2 ** 30, smallShape, NATIVE_LAYOUT);
  expect(roomy).toMatchObject({ tokens: 1024, configured: 1024, bytesPerToken: position });
  expect(contextBound(roomy)).toBe('max_position_embeddings of its config.json is 1024');
  const tight = contextWithin(100 * position, smallShape, NATIVE_LAYOUT);
  expect(tight).toMatchObject({ tokens: 96, configured: 1024, inMemory: 96 });
  const mebibytes = Math.ceil((1024 * position) / 2 ** 20);
  expect(contextBound(tight)).toBe(
    `the engine's cache of 1 MiB holds 96 of the 1024 tokens in its config.json; LONGHAUL_KV_CACHE_MIB=${mebibytes} holds all`,
  );
});

it("bounds the context of TensorFlow's graph by its tables too, which take more than the cache", () => {
  const long = { ...smallShape, maxPositions: 100_000 };
  const table = GRAPH_LAYOUT.tableBytes(long);
  expect(table).toBeGreaterThan(position);
  expect(contextWithin(5000 * table, long, GRAPH_LAYOUT).inMemory).toBe(5000);
  // A context of 2,048 tokens had always been possible.
  expect(contextWithin(1500 * table, long, GRAPH_LAYOUT).inMemory).toBe(2048);
});
