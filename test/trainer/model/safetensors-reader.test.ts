/** Weights read in pieces: hunts a piece in the wrong place, a tensor that ends early, a wrong index, open files. */

import { readdirSync } from 'node:fs';
import { mkdir, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../trainer/model/safetensors.ts';
import { gathered, loadWeights, readWeights, WeightsHash, weightsDigest } from '../../../trainer/model/weights.ts';
import { inScratch } from '../tiny-policy.ts';

/** Each has several pieces, except the vector of three. */
const tensors = new Map(
  (
    [
      ['b', [700, 333]],
      ['a', [3]],
      ['B', [400_000]],
      ['c', [2, 300, 500]],
    ] as const
  ).map(([name, shape]) => {
    const size = shape.reduce((product: number, one: number) => product * one, 1);
    // Numbers that 16 bits hold exactly.
    return [
      name as string,
      { shape: [...shape], data: Float32Array.from({ length: size }, (_, i) => (i % 256) - 128) },
    ];
  }),
);

/** In two shards, which hold every other tensor. */
async function write(dir: string, type: 'F32' | 'BF16'): Promise<void> {
  const map: Record<string, string> = {};
  for (const [i, file] of ['model-1.safetensors', 'model-2.safetensors'].entries()) {
    const own = new Map([...tensors].filter((_, at) => at % 2 === i));
    for (const name of own.keys()) map[name] = file;
    if (type === 'F32') await writeSafetensors(path.join(dir, file), own);
    else await writeHalf(path.join(dir, file), own);
  }
  await writeFile(path.join(dir, 'model.safetensors.index.json'), JSON.stringify({ weight_map: map }));
}

async function writeHalf(file: string, own: typeof tensors): Promise<void> {
  let at = 0;
  const header = Object.fromEntries(
    [...own].map(([name, { shape, data }]) => [
      name,
      { dtype: 'BF16', shape, data_offsets: [at, (at += 2 * data.length)] },
    ]),
  );
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const halves = [...own.values()].map(({ data }) =>
    Buffer.from(Uint16Array.from(new Uint32Array(data.buffer), (bits) => bits >>> 16).buffer),
  );
  await writeFile(file, Buffer.concat([length, json, ...halves]));
}

const openFiles = (): number => readdirSync('/proc/self/fd').length;

describe.each(['F32', 'BF16'] as const)('weights in shards of %s', (type) => {
  test('are read in whole rows, by name in byte order, and equal those that were written', () =>
    inScratch(async (dir) => {
      await mkdir(dir, { recursive: true });
      await write(dir, type);
      const [seen, hash] = [new Map<string, number>(), new WeightsHash()];
      for await (const [name, { shape, data, from = 0 }] of readWeights(dir)) {
        expect(from).toBe(seen.get(name) ?? 0);
        if (shape.length > 1) expect(data.length % shape.at(-1)!).toBe(0);
        expect(data.byteLength).toBeLessThanOrEqual(2 ** 20);
        seen.set(name, from + data.length);
        hash.add([name, { shape, data, from }]);
      }
      expect([...seen]).toEqual(['B', 'a', 'b', 'c'].map((name) => [name, tensors.get(name)!.data.length]));
      expect(hash.digest()).toBe(weightsDigest(tensors));
      expect(weightsDigest(await loadWeights(dir))).toBe(weightsDigest(tensors));
    }));

  test('leave no file open, also if not all was read', () =>
    inScratch(async (dir) => {
      await write(dir, type);
      const before = openFiles();
      await gathered(readWeights(dir));
      for await (const [name] of readWeights(dir)) if (name === 'a') break;
      expect(openFiles()).toBe(before);
    }));

  test('that are cut off while they are read give an error, not stale data', () =>
    inScratch(async (dir) => {
      await write(dir, type);
      const reading = async (): Promise<void> => {
        for await (const [name] of readWeights(dir))
          if (name === 'a') await truncate(path.join(dir, 'model-1.safetensors'), 1000);
      };
      await expect(reading()).rejects.toMatchObject({ name: 'BadSafetensors', tensor: 'b' });
    }));
});

describe('an index', () => {
  test.each([
    ['that is not JSON', '{'],
    ['that is null', 'null'],
    ['without a map', '{}'],
    ['with a map that is null', { weight_map: null }],
    ['that names another folder', { weight_map: { a: '../model-1.safetensors' } }],
    ['that names the folder above', { weight_map: { a: '..' } }],
    ['that names its own folder', { weight_map: { a: '' } }],
    ['that names no file', { weight_map: { a: 1 } }],
    [
      'that gives a tensor to a shard without it',
      { weight_map: { a: 'model-1.safetensors', z: 'model-2.safetensors' } },
    ],
  ])('%s is refused, and no file stays open', (_, index) =>
    inScratch(async (dir) => {
      await write(dir, 'F32');
      await writeFile(
        path.join(dir, 'model.safetensors.index.json'),
        typeof index === 'string' ? index : JSON.stringify(index),
      );
      const before = openFiles();
      await expect(loadWeights(dir)).rejects.toMatchObject({
        name: 'BadSafetensors',
        file: expect.stringContaining(dir) as string,
      });
      expect(openFiles()).toBe(before);
    }),
  );
});
