/**
 * Hunts warm sandboxes whose lease outlives them, or whose time to live ends while their keeper lives. It uses a
 * virtual clock and a provider that only records its calls; warm-pool.test.ts tests a real one.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SandboxLost } from '../../sandboxes/sandbox.ts';
import type { HostProvider, SandboxShape } from '../../sandboxes/supervised/provider.ts';
import { openWarmPool, type WarmPool } from '../../sandboxes/warm-pool.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';

const shape: SandboxShape = { workdir: '/workspace', limits: { memoryMiB: 64, processes: 8, diskMiB: 8 } };
const other: SandboxShape = { ...shape, workdir: '/elsewhere' };
let folder: string;
let store: Store;
let pools: WarmPool[];
/** Ids and times to live of renewals; errors to throw, by id. */
let renewed: Array<readonly [string, number]>;
let failure: ((id: string) => Error | undefined) | undefined;
let errors: unknown[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'], now: 1_000_000 });
  folder = mkdtempSync(join(tmpdir(), 'longhaul-renewals-'));
  store = openSqliteStore(folder);
  [pools, renewed, errors, failure] = [[], [], [], undefined];
});
afterEach(async () => {
  for (const pool of pools) await pool.stop();
  await store.close().catch(() => undefined);
  rmSync(folder, { recursive: true });
  vi.useRealTimers();
});

const never = () => Promise.reject(new Error('nobody asks for that here'));
const provider: HostProvider = {
  name: 'written-down',
  create: never,
  connect: never,
  destroy: never,
  list: async () => [],
  ended: async () => [],
  sweep: async () => [],
  warm: async () => undefined,
  take: async () => undefined,
  keepWarm: async (id, ttl) => {
    const error = failure?.(id);
    if (error) throw error;
    renewed.push([id, ttl]);
  },
} as HostProvider;
function open(size: number, over: Partial<Store> = {}): WarmPool {
  const seen = new Proxy(store, {
    get: (target, name) =>
      (name in over ? Reflect.get(over, name) : (Reflect.get(target, name) as () => void).bind(target)) as unknown,
  });
  const pool = openWarmPool({ store: seen, provider, host: 'here', size, onError: (error) => errors.push(error) });
  pools.push(pool);
  return pool;
}
const leases = () => store.leases('warm-sandbox');
/** Runs one round of renewals to its end. */
async function round(): Promise<void> {
  await vi.advanceTimersByTimeAsync(30_000);
  await new Promise((resolve) => setTimeout(resolve, 30));
}

it('every warm sandbox and its lease are renewed long before they end, round after round', async () => {
  await open(2).fill(shape);
  const ids = (await leases()).map(({ id }) => id);
  for (let n = 1; n <= 10; n += 1) {
    await round();
    expect(renewed.length).toBe(2 * n);
    for (const { expiresAt } of await leases()) expect(expiresAt).toBe(Date.now() + 120_000);
  }
  expect((await leases()).map(({ id }) => id)).toEqual(ids);
  expect(new Set(renewed.map(([id]) => id))).toEqual(new Set(ids));
  expect([errors, renewed.every(([, ttl]) => ttl === 120)]).toEqual([[], true]);
});

it('a lost one releases its lease without a report; another failure is reported, and the next one is renewed anyway', async () => {
  await open(3).fill(shape);
  const [lost, broken, fine] = (await leases()).map(({ id }) => id);
  failure = (id) =>
    id === lost ? new SandboxLost(id) : id === broken ? new Error('the daemon does not answer') : undefined;
  await round();
  expect((await leases()).map(({ id }) => id)).toEqual([fine]);
  expect(renewed.map(([id]) => id)).toEqual([fine]);
  expect(errors.map(String)).toEqual(['Error: the daemon does not answer']);
});

it('sandboxes of a shape that is no longer wanted are not renewed, and a pool of size 0 renews nothing', async () => {
  const keeper = open(1);
  await keeper.fill(shape);
  open(0);
  await round();
  expect(renewed.length).toBe(1);
  await keeper.fill(other);
  await round();
  await round();
  expect(renewed.length).toBe(1);
  const [left] = await leases();
  expect(left!.expiresAt).toBeLessThan(Date.now() + 120_000);
});

it('a store that is down for a round is reported, and the next round renews', async () => {
  let down = false;
  const pool = open(1, {
    leases: (kind) => (down ? Promise.reject(new Error('the store is down')) : store.leases(kind)),
  });
  await pool.fill(shape);
  down = true;
  await round();
  expect([renewed.length, errors.map(String)]).toEqual([0, ['Error: the store is down']]);
  down = false;
  await round();
  expect(renewed.length).toBe(1);
  await pool.stop();
  await round();
  expect(renewed.length).toBe(1);
});
