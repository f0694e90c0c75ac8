/**
 * `bench orchestration`: rollouts per second with the real reducer, store and search attributes, against a bare
 * workflow with as many empty activities on the same queues. Both run on the same workers, in alternating blocks.
 */

import { embeddedOnly } from '../activities/backends/embedded-backend.ts';
import { Client, Connection } from '@temporalio/client';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createAgentRunActivities } from '../activities/agent-run/agent-run.ts';
import { createGpuActivities } from '../activities/gpu.ts';
import { createInitActivities } from '../activities/init/init.ts';
import { createRewardActivities } from '../activities/reward/reward.ts';
import { openStore, sqliteUrl } from '../store/open-store.ts';
import { EndpointClient } from '../endpoints/endpoint-client.ts';
import type { Store } from '../store/store.ts';
import { defineEnvironment } from '../tasks/registry.ts';
import { TaskLoader } from '../tasks/task-loader.ts';
import { hostQueue, QUEUES } from '../protocol/queues.ts';
import type { RolloutInput } from '../protocol/rollout.ts';
import { emptyEngine, emptyEnvironment, emptyProvider, emptyTokenizer } from './empty-parts.ts';
import { startOwnWorkers, withOwnTemporal } from './own-temporal.ts';

export interface OrchestrationOptions {
  readonly rollouts: number;
  readonly turns: number;
  /** Rollouts in flight. */
  readonly concurrency: number;
  readonly blocks: number;
}

const HOST = 'bench-host';

/** The real activities of all queues except the orchestrator's, over parts that do nothing. */
export function emptyActivities(store: Store, turns: number) {
  const empty = { empty: async () => undefined };
  const provider = emptyProvider;
  const tasks = new TaskLoader(store);
  const deps = {
    store,
    tasks,
    ...embeddedOnly({
      engine: emptyEngine(turns),
      tokenizerOf: async () => emptyTokenizer,
      digestOf: async () => 'empty',
    }),
  };
  const limits = { host: HOST, maxLiveSandboxes: 100_000, sandboxTtlSeconds: 600 };
  return {
    [QUEUES.init]: { ...createInitActivities({ store, tasks, provider, ...limits }), ...empty },
    [QUEUES.gpu]: { ...createGpuActivities({ ...deps, endpoints: new EndpointClient() }), ...empty },
    [hostQueue(HOST)]: {
      ...createAgentRunActivities({ store, tasks, provider, host: HOST, sandboxTtlSeconds: 600 }),
      ...empty,
    },
    [QUEUES.reward]: { ...createRewardActivities({ store, tasks, provider, ...limits }), ...empty },
  };
}

function startWorkers(address: string, store: Store, turns: number) {
  const activities = emptyActivities(store, turns);
  return startOwnWorkers({
    address,
    workflows: './workflows',
    from: import.meta,
    activities,
    slots: 100,
    cachedWorkflows: 600,
  });
}

/** Runs `count` jobs, `concurrency` at a time. Returns seconds. */
async function timed(count: number, concurrency: number, job: (index: number) => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  let next = 0;
  const lane = async () => {
    while (next < count) await job(next++);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, lane));
  return (performance.now() - begun) / 1000;
}

async function historySize(client: Client, workflowId: string): Promise<{ events: number; bytes: number }> {
  const { workflowExecutionInfo: info } = await client.workflowService.describeWorkflowExecution({
    namespace: 'default',
    execution: { workflowId },
  });
  return { events: Number(info?.historyLength ?? 0), bytes: Number(info?.historySizeBytes ?? 0) };
}

/** What one more turn adds to a history: the difference of two rollouts, divided by the difference of their turns. */
async function perTurn(client: Client, run: (turns: number, id: string) => Promise<unknown>, turns: number) {
  const [few, many] = [1, turns - 1];
  await run(few, 'size/short');
  await run(many, 'size/long');
  const [short, long] = [await historySize(client, 'size/short'), await historySize(client, 'size/long')];
  return {
    historyBytesPerTurn: Math.round((long.bytes - short.bytes) / (many - few)),
    historyEventsPerTurn: (long.events - short.events) / (many - few),
  };
}

async function measure(client: Client, options: OrchestrationOptions) {
  const { turns, concurrency, blocks } = options;
  const perBlock = Math.ceil(options.rollouts / blocks);
  const input = (maxTurns: number): RolloutInput => ({
    task: 'empty-train-0',
    policy: { uri: 'file:///empty', version: 0 },
    agent: { maxTurns, maxContextTokens: 100_000, toolTimeoutSeconds: 60 },
    run: 'bench',
  });
  const start = (workflow: string, workflowId: string, args: unknown[]) =>
    client.workflow.execute(workflow, { taskQueue: QUEUES.orchestrator, workflowId, args });
  const durable = (id: string) => start('rollout', id, [input(turns)]);
  const bareRun = (id: string) => start('bare', id, [turns, HOST]);
  await timed(20, concurrency, (i) => durable(`warm/durable/${i}`));
  await timed(20, concurrency, (i) => bareRun(`warm/bare/${i}`));
  let durableSeconds = 0;
  let bareSeconds = 0;
  for (let block = 0; block < blocks; block++) {
    bareSeconds += await timed(perBlock, concurrency, (i) => bareRun(`bare/${block}/${i}`));
    durableSeconds += await timed(perBlock, concurrency, (i) => durable(`durable/${block}/${i}`));
  }
  const rollouts = perBlock * blocks;
  const activities = rollouts * (2 * turns + 2);
  const sizes = await perTurn(
    client,
    (n, id) => start('rollout', id, [{ ...input(n), agent: { ...input(n).agent, maxTurns: n } }]),
    turns,
  );
  return {
    rollouts,
    turns,
    rolloutsPerSecond: rollouts / durableSeconds,
    activitiesPerSecond: activities / durableSeconds,
    bare: { activitiesPerSecond: activities / bareSeconds },
    ratio: bareSeconds / durableSeconds,
    ...sizes,
    cores: availableParallelism(),
  };
}

/** Starts and stops its own server and workers. */
export async function benchOrchestration(options: OrchestrationOptions) {
  defineEnvironment(emptyEnvironment);
  return withOwnTemporal(async ({ address, dir }) => {
    const store = await openStore(sqliteUrl(join(dir, 'store')));
    const stop = await startWorkers(address, store, options.turns);
    const connection = await Connection.connect({ address });
    try {
      return await measure(new Client({ connection }), options);
    } finally {
      await connection.close();
      await stop();
      await store.close();
    }
  });
}
