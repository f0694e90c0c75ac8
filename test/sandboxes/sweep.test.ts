/** The sweeper: a worker that is killed never gives its sandboxes back, so their leases decide. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished } from 'vitest';

import { sandboxLeases } from '../../sandboxes/leases.ts';
import { startSweeper, sweepOnce, toSweep } from '../../sandboxes/sweep.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Lease, Store } from '../../store/store.ts';
import { eventually, openBench, sh, specOf } from './harness.ts';

const { provider } = await openBench();

function leaseStore(): Store {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-leases-'));
  const store = openSqliteStore(folder);
  onTestFinished(async () => {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return store;
}

const lease = (id: string, expiresAt: number, host = 'here'): Lease => ({ id, kind: 'sandbox', owner: 'o', host, expiresAt, detail: '' });

describe('what is swept', () => {
  it('is what expired on this host, and the remains of what nobody holds', () => {
    const leases = [lease('live', 20), lease('expired', 5), lease('far', 5, 'there'), lease('dying', 20)];
    expect(toSweep(leases, 'here', ['dying', 'leaseless'], 10)).toEqual(['expired', 'leaseless']);
    expect(toSweep([lease('edge', 10)], 'here', [], 10)).toEqual(['edge']);
    expect(toSweep([lease('expired', 5)], 'here', ['expired'], 10)).toEqual(['expired']);
  });
});

describe('with real sandboxes', () => {
  it('ends what expired, keeps what is held, and leaves one without a lease alone', async () => {
    const store = leaseStore();
    const leases = sandboxLeases(store, 'here', 2);
    for (const [id, ttl] of [['held', 60], ['left', -1]] as const) {
      expect(await leases.acquire(id, 'worker', ttl)).toBeDefined();
      await provider.create(specOf(id));
    }
    await provider.create(specOf('leaseless'));
    expect(await sweepOnce({ store, provider, host: 'here' })).toEqual(['left']);
    expect(await provider.list()).toHaveLength(2);
    expect((await store.leases('sandbox')).map(({ id }) => id)).toEqual(['held']);
  });

  it('counts only live leases against the limit, and renews lease and sandbox together', async () => {
    const store = leaseStore();
    const leases = sandboxLeases(store, 'here', 1);
    expect(await leases.acquire('a', 'worker', 60)).toBeDefined();
    expect(await leases.acquire('b', 'worker', 60)).toBeUndefined();
    expect(await leases.acquire('a', 'worker', 60)).toBeDefined();
    const sandbox = await provider.create(specOf('renewed', { ttlSeconds: 0.4 }));
    await leases.release('a');
    await leases.renew(sandbox, 'worker', 60);
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect((await sh(sandbox, 'echo alive')).output).toBe('alive\n');
    expect((await store.leases('sandbox'))[0]?.expiresAt).toBeGreaterThan(Date.now() + 50_000);
  });

  it('ends at once what belongs to an owner that has ended, however long its lease still runs', async () => {
    const store = leaseStore();
    for (const owner of ['ended', 'alive']) {
      await sandboxLeases(store, 'here', 9).acquire(`of-${owner}`, owner, 60);
      await provider.create(specOf(`of-${owner}`));
    }
    await store.acquireLease(lease('far', Date.now() + 60_000, 'there'), 9);
    const asked: string[] = [];
    const ownerLives = async (owner: string): Promise<boolean> => (asked.push(owner), owner !== 'ended');
    expect(await sweepOnce({ store, provider, host: 'here', ownerLives })).toEqual(['of-ended']);
    // Once to find it, and once more before it is ended: it may have been started again meanwhile.
    expect(asked.toSorted()).toEqual(['alive', 'ended', 'ended']);
    expect((await sh(await provider.connect('of-alive'), 'echo alive')).output).toBe('alive\n');
    await provider.destroy('of-alive');
  });

  it('spares what belongs to an owner that was started again meanwhile', async () => {
    const store = leaseStore();
    await sandboxLeases(store, 'here', 9).acquire('again', 'owner', 60);
    await provider.create(specOf('again'));
    const answers = [false, true];
    expect(await sweepOnce({ store, provider, host: 'here', ownerLives: async () => answers.shift() ?? true })).toEqual([]);
    expect((await sh(await provider.connect('again'), 'echo alive')).output).toBe('alive\n');
    await provider.destroy('again');
  });

  it('ends what has expired also where the provider cannot end the remains of another', async () => {
    const store = leaseStore();
    await provider.create(specOf('expired'));
    await sandboxLeases(store, 'here', 9).acquire('expired', 'worker', -1);
    const told: unknown[] = [];
    const stuck = Object.assign(Object.create(provider) as typeof provider, { ended: () => Promise.reject(new Error('device or resource busy')) });
    expect(await sweepOnce({ store, provider: stuck, host: 'here', onError: (error) => told.push(error) })).toEqual(['expired']);
    expect(told.map(String)).toEqual(['Error: device or resource busy']);
  });

  it('goes on by itself until it is stopped', async () => {
    const store = leaseStore();
    await provider.create(specOf('later'));
    const sweeper = startSweeper({ store, provider, host: 'here', intervalMs: 30 });
    await sandboxLeases(store, 'here', 9).acquire('later', 'worker', -1);
    await eventually('the sweep', async () => ((await provider.list()).includes('later') ? undefined : true));
    await sweeper.stop();
  });
});
