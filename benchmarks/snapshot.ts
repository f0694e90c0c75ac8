/**
 * `bench snapshot`: how long a snapshot of a sandbox takes, and a new sandbox that is made of it. The workspace is one
 * random file, which does not compress.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObjectRef } from '../protocol/stages.ts';
import type { SandboxSpec } from '../sandboxes/sandbox.ts';
import { restoreSnapshot, takeSnapshot } from '../sandboxes/snapshot.ts';
import { workspaceDigest } from '../sandboxes/workspace-digest.ts';
import { openStore, sqliteUrl } from '../store/open-store.ts';
import type { Store } from '../store/store.ts';
import type { HostProvider } from '../sandboxes/supervised/provider.ts';
import { openSandboxProvider } from '../workers/sandbox-provider.ts';
import { readSandboxSettings } from '../workers/settings.ts';

export interface SnapshotBench {
  readonly megabytes: number;
  /** Of all pieces. */
  readonly bytes: number;
  readonly pieces: number;
  readonly takeSeconds: number;
  readonly restoreSeconds: number;
}

async function seconds<T>(work: () => Promise<T>): Promise<readonly [T, number]> {
  const begun = performance.now();
  const value = await work();
  return [value, (performance.now() - begun) / 1000];
}

/** The workspace has 12/16 of the disk. */
const specOf = (id: string, megabytes: number): SandboxSpec => ({
  id,
  workdir: '/work',
  files: [],
  env: {},
  limits: { memoryMiB: 512, processes: 64, diskMiB: 64 + 2 * megabytes },
  ttlSeconds: 1800,
});

async function measured(megabytes: number, provider: HostProvider, store: Store): Promise<SnapshotBench> {
  const [lost, made] = [specOf(`bench-${megabytes}`, megabytes), specOf(`bench-${megabytes}-made`, megabytes)];
  const sandbox = await provider.create(lost);
  const command = `head -c ${megabytes}000000 /dev/urandom > random`;
  await sandbox.exec({ callId: 'fill', command, timeoutMs: 600_000, outputLimit: 4096 });
  const digest = await workspaceDigest(sandbox, 'digest');
  if (digest === undefined) throw new Error(`a workspace of ${megabytes} MB has no digest here: it takes too long`);
  const refs: ObjectRef[] = [];
  const [taken, takeSeconds] = await seconds(() =>
    takeSnapshot(sandbox, lost, 'snapshot', { maxBytes: Number.MAX_SAFE_INTEGER }, async (piece) => {
      refs.push(await store.putObject(piece));
    }),
  );
  if (typeof taken === 'string') throw new Error(`no snapshot of ${megabytes} MB: ${taken}`);
  sandbox.close();
  await provider.destroy(lost.id);
  async function* pieces(): AsyncIterable<Uint8Array> {
    for (const ref of refs) yield await store.getObject(ref);
  }
  const [restored, restoreSeconds] = await seconds(() =>
    restoreSnapshot(provider, made, { ...taken, pieces: pieces() }),
  );
  if ((await workspaceDigest(restored, 'digest')) !== digest)
    throw new Error(`the snapshot of ${megabytes} MB made another workspace`);
  restored.close();
  await provider.destroy(made.id);
  return { megabytes, bytes: taken.bytes, pieces: refs.length, takeSeconds, restoreSeconds };
}

/** One size after the other, in sandboxes of the kind that this environment chooses. */
export async function benchSnapshot(
  sizes: readonly number[],
  env: NodeJS.ProcessEnv,
  say: (line: string) => void,
): Promise<readonly SnapshotBench[]> {
  const dir = await mkdtemp(join(tmpdir(), 'longhaul-bench-snapshot-'));
  const store = await openStore(sqliteUrl(join(dir, 'store')));
  const sandbox = { ...readSandboxSettings(env), warm: 0 };
  const provider = await openSandboxProvider({ sandboxDir: join(dir, 'sandboxes'), sandbox, say });
  try {
    const all: SnapshotBench[] = [];
    for (const size of sizes) all.push(await measured(size, provider, store));
    return all;
  } finally {
    await provider.sweep(() => false);
    await store.close();
    await rm(dir, { recursive: true, force: true });
  }
}
