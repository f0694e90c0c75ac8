/** Hunts an in-memory runner that is faster because its store behaves differently: both stores get the same calls. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { MemoryStore } from '../../../benchmarks/durability/memory-store.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';
import { storeContract } from '../../store/contract.ts';

const dir = mkdtempSync(join(tmpdir(), 'longhaul-memory-store-'));
let durable: Store;
beforeAll(() => {
  durable = openSqliteStore(dir);
});
afterAll(async () => {
  await durable.close();
  rmSync(dir, { recursive: true });
});

it('keeps the first value and lists by prefix, as the durable store does', async () => {
  let round = 0;
  const name = fc.stringMatching(/^[ab](\/[ab1#]{1,2}){0,3}$/);
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(name, fc.integer()), { maxLength: 20 }), name, async (entries, prefix) => {
      const memory = new MemoryStore();
      round += 1;
      for (const [key, value] of entries) {
        expect(await memory.putOnce(`${round}/${key}`, value)).toEqual(await durable.putOnce(`${round}/${key}`, value));
      }
      for (const asked of [`${round}/${prefix}`, `${round}/${prefix}/`, `${round}/`])
        expect(await memory.list(asked)).toEqual(await durable.list(asked));
      for (const [key] of entries)
        expect(await memory.get(`${round}/${key}`)).toEqual(await durable.get(`${round}/${key}`));
    }),
    { numRuns: 60 },
  );
});

/** The contract of every store; of what one process sees, since no other sees this one. */
storeContract('in memory', () => {
  const memory = new MemoryStore();
  return { open: async () => memory, remove: async () => undefined };
});
