/** The processes of a sandbox host: `init` makes sandboxes, `agent-run` acts in them, `reward` grades in fresh ones. */

import { Client } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { startSweeper } from '../../sandboxes/sweep.ts';
import { hostQueue, QUEUES } from '../../protocol/queues.ts';
import type { AgentRunInput } from '../../protocol/stages.ts';
import { openDoor } from '../../servers/gateway/serve-door.ts';
import { commonOptions, runWorkers, type RoleContext } from '../run-worker.ts';
import { openWorkerStore, workerTasks } from '../worker-store.ts';
import { openPooledProvider, openSandboxProvider, withoutPool } from '../sandbox-provider.ts';
import { ownerLives, ownerWaits } from '../lease-owner.ts';

export async function runInit(context: RoleContext): Promise<void> {
  const { settings, temporal } = context;
  const store = await openWorkerStore(context);
  const provider = await openPooledProvider(context, store);
  const { host, maxLiveSandboxes, sandboxMemoryMiB, sandboxTtlSeconds } = settings;
  const kept = { ownerWaits: ownerWaits(temporal), ttlSeconds: sandboxTtlSeconds };
  const sweeper = startSweeper({ store, provider, host, ownerLives: ownerLives(temporal) }, kept);
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.init),
    taskQueue: QUEUES.init,
    activities: {
      ...createInitActivities({
        store,
        tasks: workerTasks(store),
        provider,
        host,
        maxLiveSandboxes,
        sandboxMemoryMiB,
        sandboxTtlSeconds,
      }),
    },
  });
  await runWorkers('init', context, [worker], store, async () => {
    await sweeper.stop();
    await provider.stop();
    await store.close();
  });
}

export async function runAgentRun(context: RoleContext): Promise<void> {
  const { settings, temporal, log } = context;
  const store = await openWorkerStore(context);
  const provider = await openSandboxProvider({ ...settings, say: (line) => log.info(line) });
  const { host, sandboxTtlSeconds, snapshotMiB } = settings;
  const client = new Client({ connection: temporal.connection, namespace: temporal.namespace });
  const activities = createAgentRunActivities({
    store,
    tasks: workerTasks(store),
    provider,
    host,
    sandboxTtlSeconds,
    snapshots: { mib: snapshotMiB },
    openGateway: (sandbox, attempt) => openDoor(sandbox, attempt, { store, client }),
  });
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots['agent-run']),
    taskQueue: hostQueue(host),
    activities: { ...activities },
  });
  // Turns of tasks without a sandbox run on any host.
  const shared = await Worker.create({
    ...commonOptions(temporal, settings.slots['agent-run']),
    taskQueue: QUEUES.agentRun,
    activities: { agentRun: (input: AgentRunInput) => activities.agentRun(input) },
  });
  await runWorkers('agent-run', context, [worker, shared], store, () => store.close());
}

export async function runReward(context: RoleContext): Promise<void> {
  const { settings, temporal } = context;
  const store = await openWorkerStore(context);
  // Graders take sandboxes from the warm pool that `init` fills.
  const provider = await openPooledProvider(withoutPool(context), store);
  const worker = await Worker.create({
    ...commonOptions(temporal, settings.slots.reward),
    taskQueue: QUEUES.reward,
    activities: { ...createRewardActivities({ store, tasks: workerTasks(store), provider, host: settings.host }) },
  });
  await runWorkers('reward', context, [worker], store, async () => {
    await provider.stop();
    await store.close();
  });
}
