/** The processes of a sandbox host: `init` makes sandboxes, `agent-run` acts in them, `reward` grades in fresh ones. */

import { Worker } from '@temporalio/worker';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { startSweeper } from '../../sandboxes/sweep.ts';
import { hostQueue, QUEUES } from '../../protocol/queues.ts';
import { commonOptions, runWorkers } from '../run-worker.ts';
import { openWorkerStore } from '../worker-store.ts';
import { openPooledProvider, openSandboxProvider, withoutPool } from '../sandbox-provider.ts';
import { ownerLives, ownerWaits } from '../lease-owner.ts';
import type { WorkerSettings } from '../settings.ts';
import type { WorkerConnection } from '../../connection/temporal-connection.ts';

export async function runInit(settings: WorkerSettings, temporal: WorkerConnection): Promise<void> {
  const store = openWorkerStore(settings);
  const provider = await openPooledProvider(settings, store);
  const { host, maxLiveSandboxes, sandboxTtlSeconds } = settings;
  const kept = { ownerWaits: ownerWaits(temporal), ttlSeconds: sandboxTtlSeconds };
  const sweeper = startSweeper({ store, provider, host, ownerLives: ownerLives(temporal) }, kept);
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.init),
    taskQueue: QUEUES.init,
    activities: { ...createInitActivities({ store, provider, host, maxLiveSandboxes, sandboxTtlSeconds }) },
  });
  await runWorkers('init', settings, [worker], async () => {
    await sweeper.stop();
    await provider.stop();
    await store.close();
  });
}

export async function runAgentRun(settings: WorkerSettings, temporal: WorkerConnection): Promise<void> {
  const store = openWorkerStore(settings);
  const provider = await openSandboxProvider(settings);
  const { host, sandboxTtlSeconds } = settings;
  const activities = createAgentRunActivities({ store, provider, host, sandboxTtlSeconds });
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots['agent-run']),
    taskQueue: hostQueue(host),
    activities: { ...activities },
  });
  await runWorkers('agent-run', settings, [worker], () => store.close());
}

export async function runReward(settings: WorkerSettings, temporal: WorkerConnection): Promise<void> {
  const store = openWorkerStore(settings);
  // What `init` keeps warm is a grader's as well.
  const provider = await openPooledProvider(withoutPool(settings), store);
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.reward),
    taskQueue: QUEUES.reward,
    activities: { ...createRewardActivities({ store, provider, host: settings.host }) },
  });
  await runWorkers('reward', settings, [worker], async () => {
    await provider.stop();
    await store.close();
  });
}
