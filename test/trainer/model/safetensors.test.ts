/** Reading and writing policies: damaged files are refused with file, tensor and sizes; they never give wrong data. */

import { readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { BadSafetensors, readSafetensors, writeSafetensors } from '../../../trainer/model/safetensors.ts';
import { loadWeights, saveWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { inScratch, qwen3Dir } from '../tiny-policy.ts';

function fileOf(header: unknown, data: Buffer): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, data]);
}

const readBytes = (bytes: Buffer) =>
  inScratch(async (dir) => {
    const file = path.join(dir, 'x.safetensors');
    await writeFile(file, bytes);
    return readSafetensors(file);
  });

describe('readSafetensors', () => {
  test('F16 and BF16 are converted exactly', async () => {
    const header = {
      half: { dtype: 'F16', shape: [6], data_offsets: [0, 12] },
      brain: { dtype: 'BF16', shape: [2, 1], data_offsets: [12, 16] },
    };
    const data = Buffer.from(Uint16Array.of(0x3c00, 0xc100, 0x0001, 0x7bff, 0xfc00, 0x8000, 0x3fc0, 0xc049).buffer);
    const tensors = await readBytes(fileOf(header, data));
    expect([...tensors.get('half')!.data]).toEqual([1, -2.5, 2 ** -24, 65504, -Infinity, -0]);
    expect([...tensors.get('brain')!.data]).toEqual([1.5, -3.140625]);
    expect(tensors.get('brain')!.shape).toEqual([2, 1]);
  });

  test('the error for a truncated file holds the tensor, the expected size and the actual one', async () => {
    const bytes = fileOf({ a: { dtype: 'F32', shape: [4], data_offsets: [0, 16] } }, Buffer.alloc(10));
    await expect(readBytes(bytes)).rejects.toMatchObject({
      name: 'BadSafetensors',
      tensor: 'a',
      expectedBytes: 16,
      actualBytes: 10,
    });
  });

  test.each([
    ['empty', Buffer.alloc(0)],
    ['header cut off', fileOf({ a: 1 }, Buffer.alloc(0)).subarray(0, 11)],
    ['header too long', Buffer.alloc(16, 0xff)],
    ['not JSON', Buffer.concat([Buffer.from([3, 0, 0, 0, 0, 0, 0, 0]), Buffer.from('{{{')])],
    ['unknown dtype', fileOf({ a: { dtype: 'I8', shape: [1], data_offsets: [0, 1] } }, Buffer.alloc(1))],
    ['offsets against shape', fileOf({ a: { dtype: 'F32', shape: [2], data_offsets: [0, 4] } }, Buffer.alloc(4))],
    [
      'overlap',
      fileOf(
        {
          a: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
          b: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
        },
        Buffer.alloc(4),
      ),
    ],
    ['trailing bytes', fileOf({ a: { dtype: 'F32', shape: [1], data_offsets: [0, 4] } }, Buffer.alloc(5))],
    ['negative size', fileOf({ a: { dtype: 'F32', shape: [-1], data_offsets: [0, 4] } }, Buffer.alloc(4))],
  ])('%s is refused', async (_, bytes) => {
    await expect(readBytes(bytes)).rejects.toBeInstanceOf(BadSafetensors);
  });
});

describe('weights', () => {
  test('written and read again are the same, and no other file is left', () =>
    inScratch(async (dir) => {
      const weights = await loadWeights(qwen3Dir);
      await saveWeights(dir, weights);
      expect(await readdir(dir)).toEqual(['model.safetensors']);
      expect(await loadWeights(dir)).toEqual(new Map([...weights].sort(([a], [b]) => (a < b ? -1 : 1))));
      const header = (await readFile(path.join(dir, 'model.safetensors'))).readBigUInt64LE(0);
      expect(Number(header) % 8).toBe(0);
    }));

  test('the digest covers names and values, in byte order of the names', () => {
    const tensor = (x: number) => ({ shape: [1], data: Float32Array.of(x) });
    // printf 'B\0\0\0\200?a\0\0\0\0@' | sha256sum
    const digest = 'a767c4e758fdbfe33fd23753e1f0f647f0922a38c396d5cf557460d4cd3ed575';
    expect(
      weightsDigest(
        new Map([
          ['a', tensor(2)],
          ['B', tensor(1)],
        ]),
      ),
    ).toBe(digest);
    expect(
      weightsDigest(
        new Map([
          ['a', tensor(1)],
          ['B', tensor(2)],
        ]),
      ),
    ).not.toBe(digest);
  });

  test('the digest takes tensors of any size: an embedding alone may have 2 GiB', () => {
    // (printf 'a\0'; head -c 2147483652 /dev/zero) | sha256sum
    const digest = '0f6df77b1d6caecd0e6471232171a8e86f13fae63532431cbd8fcc4f03e26fb4';
    expect(weightsDigest(new Map([['a', { shape: [2 ** 29 + 1], data: new Float32Array(2 ** 29 + 1) }]]))).toBe(digest);
  });

  test('names that are not ASCII are kept', () =>
    inScratch(async (dir) => {
      const file = path.join(dir, 'x.safetensors');
      await writeSafetensors(file, new Map([['é', { shape: [2], data: Float32Array.of(1, 2) }]]));
      expect([...(await readSafetensors(file)).get('é')!.data]).toEqual([1, 2]);
    }));
});
