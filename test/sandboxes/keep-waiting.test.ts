/**
 * Hunts sandboxes that end while their rollout waits, and sandboxes that are kept although nothing needs them: they
 * would use up the host's limit for as long as the rollout lasts.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type KeepOptions, keepWaiting } from '../../sandboxes/keep-waiting.ts';
import { machineTime } from '../../sandboxes/lease-time.ts';
import { GRADER_LEASE, sandboxLeases } from '../../sandboxes/leases.ts';
import { type Sandbox, SandboxLost, type SandboxProvider } from '../../sandboxes/sandbox.ts';
import { startSweeper } from '../../sandboxes/sweep.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import { openBench, sh, specOf } from './harness.ts';

function leaseStore() {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-leases-'));
  const store = openSqliteStore(folder);
  onTestFinished(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return store;
}

/** Leases of 60 s that were taken `ago` seconds ago. `renewed`: the renewed sandboxes, in order. */
function host({ connect, ...over }: Partial<KeepOptions> & { readonly connect?: (id: string) => Promise<void> } = {}) {
  const store = leaseStore();
  const renewed: string[] = [];
  const asked: string[] = [];
  const sandboxOf = async (id: string): Promise<Sandbox> => {
    await connect?.(id);
    return { id, close: () => undefined, renew: async () => void renewed.push(id) } as unknown as Sandbox;
  };
  const told: unknown[] = [];
  return {
    store,
    renewed,
    asked,
    told,
    take: async (id: string, owner: string, ago: number, { at = 'here', kind = 'sandbox' } = {}) => {
      const time = { ...machineTime, now: () => machineTime.now() - ago * 1000 };
      const lease = await sandboxLeases(store, at, 9, kind, time).acquire(id, owner, 60);
      // By the clock at that time.
      await store.acquireLease({ ...lease!, expiresAt: lease!.expiresAt - ago * 1000 }, 9);
    },
    keep: () =>
      keepWaiting({
        store,
        host: 'here',
        ttlSeconds: 60,
        provider: { connect: sandboxOf } as unknown as SandboxProvider,
        ownerWaits: async (owner) => (asked.push(owner), !owner.startsWith('gone')),
        onError: (error) => told.push(error),
        ...over,
      }),
  };
}

describe('the renewal of waiting sandboxes', () => {
  it('starts after half of their time, and then queries no owner again for as long', async () => {
    const { store, renewed, asked, take, keep } = host();
    await take('idle', 'a', 31);
    await take('used', 'b', 29);
    await keep();
    expect([renewed, asked]).toEqual([['idle'], ['a']]);
    expect((await store.leases('sandbox')).find(({ id }) => id === 'idle')!.expiresAt).toBeGreaterThan(
      Date.now() + 55_000,
    );
    await keep();
    expect([renewed, asked]).toEqual([['idle'], ['a']]);
  });

  it('skips owners that do not wait, other hosts, graders and leases that have run out', async () => {
    const { renewed, asked, take, keep } = host();
    await take('of-gone', 'gone', 40);
    await take('far', 'b', 40, { at: 'there' });
    await take('grading', 'c', 40, { kind: GRADER_LEASE });
    await take('over', 'd', 61);
    await keep();
    expect([renewed, asked]).toEqual([[], ['gone']]);
  });

  it('renews only the sandbox that a rollout used last, on any host', async () => {
    const { renewed, take, keep } = host();
    await take('a#1', 'a', 45);
    await take('a#2', 'a', 35);
    await take('b#1', 'b', 45);
    await take('b#1~1', 'b', 5, { at: 'there' });
    await keep();
    expect(renewed).toEqual(['a#2']);
  });

  it('renews all sandboxes of a rollout’s task, and none of its lost ones', async () => {
    const { renewed, take, keep } = host();
    for (const id of ['train/r/a#1', 'train/r/a#1+db']) await take(id, 'a', 50);
    for (const id of ['train/r/a#1~1+db', 'train/r/a#1~1']) await take(id, 'a', 35);
    await take('train/r/b#1+db', 'b', 35);
    await keep();
    expect(renewed.toSorted()).toEqual(['train/r/a#1~1', 'train/r/a#1~1+db', 'train/r/b#1+db']);
  });

  it('renews no lease of a lost sandbox, and none that was released meanwhile', async () => {
    const lost = host({ connect: () => Promise.reject(new SandboxLost('gone')) });
    await lost.take('lost', 'a', 40);
    await lost.keep();
    expect((await lost.store.leases('sandbox'))[0]!.expiresAt).toBeLessThan(Date.now() + 21_000);
    expect(lost.told).toEqual([]);
    const released: ReturnType<typeof host> = host({ connect: (id) => released.store.releaseLease(id) });
    await released.take('released', 'a', 40);
    await released.keep();
    expect(await released.store.leases('sandbox')).toEqual([]);
  });

  it('renews the others if one cannot be reached', async () => {
    const { renewed, told, take, keep } = host({
      connect: (id) => (id === 'stuck' ? Promise.reject(new Error('no answer')) : Promise.resolve()),
    });
    await take('stuck', 'a', 40);
    await take('well', 'b', 40);
    await keep();
    expect([renewed, told.map(String)]).toEqual([['well'], ['Error: no answer']]);
  });
});

it('a sandbox whose owner waits outlives its time to live, by its sweeper alone, and one whose owner does not ends', async () => {
  const { provider } = await openBench();
  const store = leaseStore();
  const ttlSeconds = 4;
  for (const id of ['waits', 'idles']) {
    await sandboxLeases(store, 'here', 9).acquire(id, id, ttlSeconds);
    await provider.create(specOf(id, { ttlSeconds }));
  }
  const sweeper = startSweeper(
    { store, provider, host: 'here' },
    { ttlSeconds, ownerWaits: async (owner) => owner === 'waits' },
  );
  await sleep(2.5 * ttlSeconds * 1000);
  await sweeper.stop();
  expect((await sh(await provider.connect('waits'), 'echo alive')).output).toBe('alive\n');
  await expect(provider.connect('idles')).rejects.toThrow(SandboxLost);
  expect((await store.leases('sandbox')).map(({ id }) => id)).toEqual(['waits']);
});
