/**
 * `bench sandbox`: the time of a sandbox's cold start, of its lease from the warm pool, and of a shell command, alone
 * and with many at a time. Every provider that works here is measured in the same way, one after the other.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sandbox, SandboxSpec } from '../sandboxes/sandbox.ts';
import type { HostProvider } from '../sandboxes/supervised/provider.ts';
import { openWarmPool } from '../sandboxes/warm-pool.ts';
import { workspaceDigest } from '../sandboxes/workspace-digest.ts';
import { openStore, sqliteUrl } from '../store/open-store.ts';
import type { ProviderName } from '../workers/sandbox-choice.ts';
import { openProvider } from '../workers/sandbox-provider.ts';
import { readSandboxSettings } from '../workers/settings.ts';

export interface SandboxBenchOptions {
  readonly providers: readonly ProviderName[];
  readonly sandboxes: number;
  readonly commands: number;
  /** The number of sandboxes that work at the same time. */
  readonly concurrency: number;
}

export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
}

export interface SandboxBench {
  readonly provider: string;
  /** Median from the call of `create` to a sandbox that answered a probe; image and daemon exist already. */
  readonly coldStartMs: number;
  /** The same for a sandbox from the warm pool. */
  readonly leaseMs: number;
  /** Median until every process of a sandbox is gone. */
  readonly destroyMs: number;
  /** The command `true` in the long-lived shell of one sandbox. */
  readonly execMs: Percentiles;
  /** Median time of a digest of the whole workspace, as after each turn. */
  readonly digestMs: number;
  /** With `concurrency` sandboxes at once, each of which runs one command after the other. */
  readonly execsPerSecond: number;
  readonly together: {
    readonly concurrency: number;
    readonly startedMs: number;
    readonly execMs: Percentiles & { readonly max: number };
  };
}

const LIMITS = { memoryMiB: 256, processes: 64, diskMiB: 32 };
const FILES = Array.from({ length: 20 }, (_, n) => ({ path: `package/module_${n}.py`, content: 'x = 1\n'.repeat(40) }));
const spec = (id: string): SandboxSpec => ({
  id,
  workdir: '/work',
  files: FILES,
  env: {},
  limits: LIMITS,
  ttlSeconds: 600,
});

export function percentiles(values: readonly number[]): Percentiles & { readonly max: number } {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { p50: at(0.5), p95: at(0.95), max: at(1) };
}

async function timed<T>(work: () => Promise<T>): Promise<{ readonly ms: number; readonly value: T }> {
  const begun = performance.now();
  const value = await work();
  return { ms: performance.now() - begun, value };
}

let calls = 0;

async function command(sandbox: Sandbox): Promise<number> {
  calls += 1;
  const { ms, value } = await timed(() =>
    sandbox.exec({ callId: `bench/${calls}`, command: 'true', timeoutMs: 60_000, outputLimit: 4096 }),
  );
  if (value.exitCode !== 0) throw new Error(`true ended with ${value.exitCode ?? value.signal}: ${value.output}`);
  return ms;
}

async function commands(sandbox: Sandbox, count: number): Promise<number[]> {
  const all: number[] = [];
  for (let n = 0; n < count; n += 1) all.push(await command(sandbox));
  return all;
}

async function coldStarts(provider: HostProvider, { sandboxes, commands: count }: SandboxBenchOptions) {
  const [created, destroyed, executed, looked]: number[][] = [[], [], [], []];
  for (let n = 0; n < sandboxes; n += 1) {
    const { ms, value } = await timed(() => provider.create(spec(`cold/${n}`)));
    created?.push(ms);
    if (n === 0) {
      executed?.push(...(await commands(value, count)));
      for (let i = 0; i < count / 10; i += 1) looked?.push((await timed(() => workspaceDigest(value, `look/${i}`))).ms);
    }
    value.close();
    destroyed?.push((await timed(() => provider.destroy(`cold/${n}`))).ms);
  }
  return { created: created ?? [], destroyed: destroyed ?? [], executed: executed ?? [], looked: looked ?? [] };
}

/** The pool is full before each lease, as it is between rollouts. */
async function leases(provider: HostProvider, dir: string, count: number): Promise<number[]> {
  const store = await openStore(sqliteUrl(join(dir, 'store')));
  const pool = openWarmPool({ store, provider, host: 'bench', size: 2 });
  const all: number[] = [];
  try {
    const { workdir, limits } = spec('any');
    for (let n = 0; n < count; n += 1) {
      await pool.fill({ workdir, limits });
      const { ms, value } = await timed(() => pool.create(spec(`warm/${n}`)));
      all.push(ms);
      value.close();
    }
  } finally {
    await pool.stop();
    await provider.sweep(() => false);
    await store.close();
  }
  return all;
}

async function together(provider: HostProvider, { concurrency, commands: count }: SandboxBenchOptions) {
  const ids = Array.from({ length: concurrency }, (_, n) => `together/${n}`);
  const started = await timed(() => Promise.all(ids.map((id) => provider.create(spec(id)))));
  const worked = await timed(() => Promise.all(started.value.map((sandbox) => commands(sandbox, count))));
  for (const sandbox of started.value) sandbox.close();
  await Promise.all(ids.map((id) => provider.destroy(id)));
  const all = worked.value.flat();
  return { startedMs: started.ms, perSecond: (all.length / worked.ms) * 1000, execMs: percentiles(all) };
}

async function measure(name: ProviderName, options: SandboxBenchOptions): Promise<SandboxBench> {
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-bench-'));
  try {
    const provider = await openProvider(name, join(dir, 'sandboxes'), readSandboxSettings());
    try {
      // The first sandbox is not counted: it includes images, caches and the daemon's first use.
      (await provider.create(spec('first'))).close();
      await provider.destroy('first');
      const cold = await coldStarts(provider, options);
      const many = await together(provider, options);
      const { p50, p95 } = percentiles(cold.executed);
      return {
        provider: name,
        coldStartMs: percentiles(cold.created).p50,
        leaseMs: percentiles(await leases(provider, dir, options.sandboxes)).p50,
        destroyMs: percentiles(cold.destroyed).p50,
        execMs: { p50, p95 },
        digestMs: percentiles(cold.looked).p50,
        execsPerSecond: many.perSecond,
        together: { concurrency: options.concurrency, startedMs: many.startedMs, execMs: many.execMs },
      };
    } finally {
      await provider.sweep(() => false);
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** The first provider's numbers, those of all in `providers`, and why others were left out in `absent`. */
export async function benchSandbox(options: SandboxBenchOptions) {
  const providers: SandboxBench[] = [];
  const absent: Array<{ readonly provider: string; readonly reason: string }> = [];
  for (const name of options.providers) {
    try {
      providers.push(await measure(name, options));
    } catch (error) {
      if (
        options.providers.length === 1 ||
        !(error instanceof Error) ||
        !/^Sandbox(Unavailable|Impossible)$/u.test(error.name)
      )
        throw error;
      absent.push({ provider: name, reason: error.message });
    }
  }
  const [first] = providers;
  if (first === undefined) throw new Error(absent.map(({ provider, reason }) => `${provider}: ${reason}`).join('; '));
  return {
    ...first,
    providers,
    absent,
    sandboxes: options.sandboxes,
    commands: options.commands,
    cores: availableParallelism(),
  };
}
