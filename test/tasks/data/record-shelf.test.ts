/** Hunts a record that another one is returned for, whether it is still in memory or in the file. */

import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { RecordShelf } from '../../../tasks/data/record-shelf.ts';

it('every value is returned as it was put, also one that is larger than the memory', async () => {
  const shelf = new RecordShelf();
  const sizes = [10, 3_000_000, 100, 9_000_000, 5, 2_000_000, 2_000_000, 0, 70_000];
  const values = [...sizes.map((size, n) => ({ n, text: 'ü'.repeat(size) })), null, 'text', [1, 2]];
  for (const value of values) shelf.put(value);
  expect(shelf.size).toBe(values.length);
  for (const [n, value] of [...values.entries()].toReversed()) expect(await shelf.get(n)).toEqual(value);
  for (const index of [-1, values.length, 0.5]) expect(await shelf.get(index)).toBeUndefined();
});

it('there is no file for few values, and none with a name for many', async () => {
  const before = readdirSync(tmpdir()).filter((name) => name.startsWith('longhaul-records-'));
  const shelf = new RecordShelf();
  for (let n = 0; n < 20_000; n += 1) shelf.put({ n, text: 'x'.repeat(n % 900) });
  const found = await Promise.all([0, 1, 9_999, 19_999].map((n) => shelf.get(n)));
  expect(found.map((value) => (value as { n: number }).n)).toEqual([0, 1, 9_999, 19_999]);
  const after = readdirSync(tmpdir()).filter((name) => name.startsWith('longhaul-records-'));
  expect(after.filter((name) => /^longhaul-records-[0-9a-f-]{36}$/.test(name))).toEqual(
    before.filter((name) => /^longhaul-records-[0-9a-f-]{36}$/.test(name)),
  );
});
