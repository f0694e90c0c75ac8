/** The sweeper: a killed worker never releases its sandboxes, so their leases decide. */

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, it, onTestFinished, vi } from 'vitest';

import { hasRunOut, leaseUntil, machineTime } from '../../sandboxes/lease-time.ts';
import { GRADER_LEASE, sandboxLeases } from '../../sandboxes/leases.ts';
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

const lease = (id: string, expiresAt: number, host = 'here'): Lease => ({
  id,
  kind: 'sandbox',
  owner: 'o',
  host,
  expiresAt,
  detail: '',
});

describe('what is swept', () => {
  it('is what expired on this host, and the remains of sandboxes without a live lease', () => {
    const leases = [lease('live', 20), lease('expired', 5), lease('far', 5, 'there'), lease('dying', 20)];
    expect(toSweep(leases, 'here', ['dying', 'leaseless'], 10)).toEqual(['expired', 'leaseless']);
    expect(toSweep([lease('edge', 10)], 'here', [], 10)).toEqual(['edge']);
    expect(toSweep([lease('expired', 5)], 'here', ['expired'], 10)).toEqual(['expired']);
  });
});

describe('the time of a lease', () => {
  const at = (now: number, boot?: string) => ({ now: () => now, boot });

  it('is the time since boot, independent of the clock, or else the clock', () => {
    const taken = leaseUntil(60, at(5_000, 'this'));
    const clock = Date.now();
    for (const jump of [-1e9, 0, 1e9])
      expect([64_999, 65_000].map((now) => hasRunOut(taken, clock + jump, at(now, 'this')))).toEqual([false, true]);
    for (const boot of ['next', undefined])
      expect([0, 1e9].map((jump) => hasRunOut(taken, clock + jump, at(0, boot)))).toEqual([false, true]);
    const bare = leaseUntil(60, at(5_000));
    expect([bare.detail, hasRunOut(bare, clock, at(1e9)), hasRunOut(bare, clock + 1e9, at(0))]).toEqual([
      '',
      false,
      true,
    ]);
  });

  it('is equal in every process of this machine', () => {
    expect(machineTime.boot).toMatch(/^[0-9a-f-]{36}$/u);
    const program = `import { machineTime } from '${join(import.meta.dirname, '../../sandboxes/lease-time.ts')}'; console.log(machineTime.now(), machineTime.boot);`;
    const before = machineTime.now();
    const [now, boot] = execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
      .trim()
      .split(' ');
    expect(boot).toBe(machineTime.boot);
    expect([before, Number(now), machineTime.now()].toSorted((a, b) => a - b)[1]).toBe(Number(now));
  });
});

describe('with real sandboxes', () => {
  it('ends nothing that is held when the clock is set ahead, nor keeps what has run out when it is set back', async () => {
    const store = leaseStore();
    for (const kind of ['sandbox', GRADER_LEASE]) {
      await sandboxLeases(store, 'here', 9, kind).acquire(`held by ${kind}`, 'rollout', 60);
      await provider.create(specOf(`held by ${kind}`));
    }
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 7 * 86_400_000 });
    expect(await sweepOnce({ store, provider, host: 'here' })).toEqual([]);
    expect((await sh(await provider.connect('held by sandbox'), 'echo alive')).output).toBe('alive\n');
    vi.setSystemTime(Date.now() - 14 * 86_400_000);
    const later = { ...machineTime, now: () => machineTime.now() + 60_000 };
    expect((await sweepOnce({ store, provider, host: 'here', time: later })).toSorted()).toEqual([
      'held by grader-sandbox',
      'held by sandbox',
    ]);
    expect(await store.leases('sandbox')).toEqual([]);
  });

  it('ends what expired, keeps what is held, and leaves one without a lease alone', async () => {
    const store = leaseStore();
    const leases = sandboxLeases(store, 'here', 2);
    for (const [id, ttl] of [
      ['held', 60],
      ['left', -1],
    ] as const) {
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
    // Once to find it, and once more before it is ended: its owner may have been started again meanwhile.
    expect(asked.toSorted()).toEqual(['alive', 'ended', 'ended']);
    expect((await sh(await provider.connect('of-alive'), 'echo alive')).output).toBe('alive\n');
    await provider.destroy('of-alive');
  });

  it('spares what belongs to an owner that was started again meanwhile', async () => {
    const store = leaseStore();
    await sandboxLeases(store, 'here', 9).acquire('again', 'owner', 60);
    await provider.create(specOf('again'));
    const answers = [false, true];
    expect(await sweepOnce({ store, provider, host: 'here', ownerLives: async () => answers.shift() ?? true })).toEqual(
      [],
    );
    expect((await sh(await provider.connect('again'), 'echo alive')).output).toBe('alive\n');
    await provider.destroy('again');
  });

  it('ends expired sandboxes even if the provider cannot list ended ones', async () => {
    const store = leaseStore();
    await provider.create(specOf('expired'));
    await sandboxLeases(store, 'here', 9).acquire('expired', 'worker', -1);
    const told: unknown[] = [];
    const stuck = Object.assign(Object.create(provider) as typeof provider, {
      ended: () => Promise.reject(new Error('device or resource busy')),
    });
    expect(await sweepOnce({ store, provider: stuck, host: 'here', onError: (error) => told.push(error) })).toEqual([
      'expired',
    ]);
    expect(told.map(String)).toEqual(['Error: device or resource busy']);
  });

  it('repeats by itself until it is stopped', async () => {
    const store = leaseStore();
    await provider.create(specOf('later'));
    const sweeper = startSweeper({ store, provider, host: 'here', intervalMs: 30 });
    await sandboxLeases(store, 'here', 9).acquire('later', 'worker', -1);
    await eventually('the sweep', async () => ((await provider.list()).includes('later') ? undefined : true));
    await sweeper.stop();
  });
});
