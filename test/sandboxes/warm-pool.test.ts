/** The warm pool: a warm sandbox is used once, by one taker, and the sandboxes of a dead keeper are swept. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, it, onTestFinished } from 'vitest';

import type { Sandbox } from '../../sandboxes/sandbox.ts';
import type { HostProvider } from '../../sandboxes/supervised/provider.ts';
import { sweepOnce } from '../../sandboxes/sweep.ts';
import { openWarmPool, type WarmPool } from '../../sandboxes/warm-pool.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import type { Store } from '../../store/store.ts';
import { eventually, openBench, sh, specOf } from './harness.ts';

const bench = await openBench();
const shape = { workdir: '/workspace', limits: specOf('any').limits };

/** The ids that came from the pool: the pool is empty if the provider is called to create one. */
function world(size: number): {
  readonly store: Store;
  readonly pool: WarmPool;
  readonly cold: string[];
  readonly open: (size: number) => WarmPool;
} {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-pool-'));
  const store = openSqliteStore(folder);
  const cold: string[] = [];
  const inner = bench.provider;
  const provider = {
    name: inner.name,
    create: (spec) => (cold.push(spec.id), inner.create(spec)),
    connect: (id) => inner.connect(id),
    destroy: (id) => inner.destroy(id),
    list: () => inner.list(),
    ended: () => inner.ended(),
    sweep: (isLive) => inner.sweep(isLive),
    warm: (id, like, ttl) => inner.warm(id, like, ttl),
    keepWarm: (id, ttl) => inner.keepWarm(id, ttl),
    take: (id, spec) => inner.take(id, spec),
  } satisfies HostProvider;
  const pools: WarmPool[] = [];
  const open = (n: number): WarmPool => {
    const pool = openWarmPool({ store, provider, host: 'here', size: n });
    pools.push(pool);
    return pool;
  };
  onTestFinished(async () => {
    for (const pool of pools) await pool.stop();
    await inner.sweep(() => false);
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { store, pool: open(size), cold, open };
}

const warmOnes = async (store: Store): Promise<string[]> =>
  (await store.leases('warm-sandbox')).filter(({ detail }) => detail !== 'being made').map(({ id }) => id);

it('hands each sandbox to one taker, with its own files, variables and set-up, as if it had been made for it', async () => {
  const { store, pool, cold, open } = world(3);
  await pool.fill(shape);
  expect(await warmOnes(store)).toHaveLength(3);
  const takers = [open(0), open(0), pool];
  const made = await Promise.all(
    ['a', 'b', 'c'].map(
      async (id, n) =>
        await takers[n]!.create(
          specOf(id, { files: [{ path: 'me', content: id }], env: { ME: id }, setup: 'echo x >> setups' }),
        ),
    ),
  );
  expect(cold).toEqual([]);
  const outputs = await Promise.all(made.map(async (sandbox) => (await sh(sandbox, 'cat me setups; echo $ME')).output));
  expect(outputs).toEqual(['ax\na\n', 'bx\nb\n', 'cx\nc\n']);
  expect((await sh(await pool.connect('b'), 'pwd')).output).toBe('/workspace\n');
  await eventually('the pool fills again', async () => ((await warmOnes(store)).length === 3 ? true : undefined));
  expect((await bench.provider.list()).filter((id) => !id.startsWith('warm/')).toSorted()).toEqual(['a', 'b', 'c']);
});

it('does not give one sandbox to two callers with the same id', async () => {
  const { pool, open } = world(2);
  await pool.fill(shape);
  const other = open(0);
  const made: Sandbox[] = await Promise.all([
    pool.create(specOf('same')),
    other.create(specOf('same')),
    bench.provider.create(specOf('same')),
  ]);
  await sh(made[0]!, 'echo mine > file');
  for (const sandbox of made) expect((await sh(sandbox, 'cat file')).output).toBe('mine\n');
  expect((await bench.provider.list()).filter((id) => !id.startsWith('warm/'))).toEqual(['same']);
});

it('makes a new one if none of that shape is ready, or if the ready one has died', async () => {
  const { store, pool, cold } = world(1);
  await pool.fill(shape);
  const wide = { memoryMiB: 128, processes: 32, diskMiB: 64 };
  expect((await sh(await pool.create(specOf('other', { limits: wide })), 'echo made')).output).toBe('made\n');
  expect(cold).toEqual(['other']);
  const second = world(1);
  await second.pool.fill(shape);
  const [dead] = await warmOnes(second.store);
  await bench.provider.destroy(dead!);
  expect((await sh(await second.pool.create(specOf('after')), 'echo made')).output).toBe('made\n');
  expect(second.cold).toEqual(['after']);
  expect(await warmOnes(store)).toBeDefined();
});

it('leaves nothing behind when its keeper is gone: leases run out, and the sweeper ends their sandboxes', async () => {
  const { store, pool } = world(1);
  await pool.fill(shape);
  await pool.stop();
  const [lease] = await store.leases('warm-sandbox');
  await store.acquireLease({ ...lease!, expiresAt: Date.now() - 1 }, 9);
  expect(await sweepOnce({ store, provider: bench.provider, host: 'here' })).toEqual([lease!.id]);
  expect(await bench.provider.list()).toEqual([]);
  expect(await store.leases('warm-sandbox')).toEqual([]);
});
