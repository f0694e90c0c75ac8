/** Hunts a worker that counts as recovered while work waits for it, on a real server. */
import { Client, Connection } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { due, workWaits } from '../../chaos/waiting-work.ts';
import { startOwnWorkers } from '../../benchmarks/own-temporal.ts';
import { openSqliteStore } from '../../store/sqlite-store.ts';
import { startPrivateServer } from '../../stack/temporal-server/private-server.ts';

it('counts what is due and nobody has, by role', () => {
  const pending = (name: string, state: number, seconds = 0) => ({
    activityType: { name },
    state,
    scheduledTime: { seconds },
  });
  const all = [
    pending('generate', 1),
    pending('update', 1),
    pending('agentRun', 2),
    pending('collect', 1, 100),
    pending('recordStep', 1),
  ];
  expect([
    due(all, 'gpu', 50_000),
    due(all, 'agent-run', 50_000),
    due(all, 'agent-run', 100_000),
    due(all, 'orchestrator', 50_000),
  ]).toEqual([2, 0, 1, 0]);
});

it('finds an activity that no worker has taken, and none that one has', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'longhaul-waiting-'));
  const server = await startPrivateServer(dir);
  const { address } = server;
  const store = openSqliteStore(join(dir, 'store'));
  const client = new Client({ connection: await Connection.connect({ address }) });
  const common = { address, workflows: '../../benchmarks/workflows', from: import.meta, slots: 5, cachedWorkflows: 10 };
  const held = Promise.withResolvers<never>();
  held.promise.catch(() => undefined); // The server may say that the activity has begun before the worker's call awaits this.
  const stops = [await startOwnWorkers({ ...common, activities: {} })];
  try {
    const rollout = 'train/waits/step-1/empty-train-0/0';
    await store.append([{ run: 'waits', rollout, attempt: 1, event: 'dispatched', at: new Date().toISOString() }]);
    const args = [{ task: 'empty-train-0', policy: { uri: 'file:///p', version: 0 } }];
    const handle = await client.workflow.start('rollout', { taskQueue: 'orchestrator', workflowId: rollout, args });
    const waits = (role: 'init' | 'gpu') => workWaits(client, store, 'waits', role);
    await expect.poll(() => waits('init')).toBe(true);
    expect(await waits('gpu')).toBe(false);
    const gone = await Connection.connect({ address });
    await gone.close();
    await expect(workWaits(new Client({ connection: gone }), store, 'waits', 'init')).rejects.toThrow();
    stops.push(await startOwnWorkers({ ...common, activities: { init: { prepare: () => held.promise } } }));
    await expect.poll(() => waits('init')).toBe(false);
    await handle.terminate();
  } finally {
    held.reject(new Error('over'));
    for (const stop of stops) await stop();
    await client.connection.close();
    await store.close();
    await server.stop();
    rmSync(dir, { recursive: true });
  }
});
