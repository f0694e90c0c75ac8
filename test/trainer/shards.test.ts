/** Sharded weights: they are read as the index says, and reading needs little more memory than the weights. */

import { execFile } from 'node:child_process';
import { mkdir, open, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../trainer/model/safetensors.ts';
import { loadWeights } from '../../trainer/model/weights.ts';
import { inScratch } from './tiny-policy.ts';

const size = { F32: 4, F16: 2, BF16: 2 } as const;
const shardName = (i: number, of: number): string => `model-0000${i + 1}-of-0000${of}.safetensors`;

/** Writes tensors of `values` numbers each, one at a time, so that this process needs no memory for them either. */
async function writeShard(
  file: string,
  dtype: keyof typeof size,
  names: readonly string[],
  values: number,
): Promise<void> {
  const bytes = values * size[dtype];
  const header = Object.fromEntries(
    names.map((name, i) => [name, { dtype, shape: [values / 1024, 1024], data_offsets: [i * bytes, (i + 1) * bytes] }]),
  );
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const handle = await open(file, 'w');
  await handle.writeFile(Buffer.concat([length, json]));
  for (const _ of names) await handle.writeFile(Buffer.alloc(bytes, 0x3c));
  await handle.close();
}

async function writeIndex(dir: string, map: Record<string, string>): Promise<void> {
  await writeFile(path.join(dir, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map: map }));
}

test('200 MB in float32, bfloat16 and float16: memory grows by 1.2 times the float32 weights at most', () =>
  inScratch(async (dir) => {
    const map: Record<string, string> = {};
    for (const [i, dtype] of (['F32', 'BF16', 'F16'] as const).entries()) {
      const names = Array.from({ length: 8 }, (_, n) => `layer.${i}.${n}`);
      await writeShard(path.join(dir, shardName(i, 3)), dtype, names, 2 ** 21 + 2 ** 16);
      for (const name of names) map[name] = shardName(i, 3);
    }
    await writeIndex(dir, map);
    const script = path.join(import.meta.dirname, 'fixtures/load-weights.ts');
    const { stdout } = await promisify(execFile)(process.execPath, [script, dir]);
    const { bytes, peak, tensors } = JSON.parse(stdout) as { bytes: number; peak: number; tensors: number };
    expect(tensors).toBe(24);
    expect(bytes).toBeGreaterThan(200e6);
    expect(peak).toBeGreaterThan(bytes);
    expect(peak / bytes).toBeLessThan(1.2);
  }));

describe('an index', () => {
  const tensor = (value: number) => ({ shape: [2], data: Float32Array.of(value, value) });
  const shards = (dir: string, ...parts: ReadonlyArray<Record<string, number>>) =>
    Promise.all(
      parts.map((part, i) =>
        writeSafetensors(
          path.join(dir, shardName(i, 2)),
          new Map(Object.entries(part).map(([name, value]) => [name, tensor(value)])),
        ),
      ),
    );

  test('joins its shards', () =>
    inScratch(async (dir) => {
      await shards(dir, { a: 1 }, { b: 2, c: 3 });
      await writeIndex(dir, { a: shardName(0, 2), b: shardName(1, 2), c: shardName(1, 2) });
      expect([...(await loadWeights(dir))].map(([name, { data }]) => [name, data[0]])).toEqual([
        ['a', 1],
        ['b', 2],
        ['c', 3],
      ]);
    }));

  test.each<[string, Record<string, number>, Record<string, string>, RegExp]>([
    [
      'of which a tensor is missing',
      { b: 2 },
      { a: shardName(0, 2), z: shardName(1, 2) },
      /00002-of-00002.*tensor z: .*names it/,
    ],
    [
      'of which two have the same tensor',
      { a: 2 },
      { a: shardName(0, 2), b: shardName(1, 2) },
      /tensor a: another shard/,
    ],
    ['of which one is not there', { b: 2 }, { a: shardName(0, 2), b: 'model-9.safetensors' }, /model-9.safetensors/],
    ['that is empty', { b: 2 }, {}, /names no file/],
    ['that leads out of the directory', { b: 2 }, { a: '../../x.safetensors' }, /not a file beside it/],
  ])('%s is refused by name', (_, second, map, message) =>
    inScratch(async (dir) => {
      await mkdir(dir, { recursive: true });
      await shards(dir, { a: 1 }, second);
      await writeIndex(dir, map);
      await expect(loadWeights(dir)).rejects.toThrow(message);
    }),
  );
});
