/**
 * `bench durability`: training steps per second of swe-mini with Temporal and records on disk, against the same job in
 * memory. Both share one engine and real sandboxes, and run in alternating blocks in one process.
 */

import { embeddedOnly } from '../../activities/backends/embedded-backend.ts';
import { TaskLoader } from '../../tasks/task-loader.ts';
import { mkdir } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { createAgentRunActivities } from '../../activities/agent-run/agent-run.ts';
import type { PolicyTokenizer } from '../../activities/generate/sample-ids.ts';
import { createGpuActivities } from '../../activities/gpu.ts';
import { createInitActivities } from '../../activities/init/init.ts';
import { openRun } from '../../activities/orchestrator/open-run.ts';
import { createOrchestratorActivities } from '../../activities/orchestrator/orchestrator.ts';
import { createRewardActivities } from '../../activities/reward/reward.ts';
import { checkTasksOfRun } from '../../config/open-tasks.ts';
import { resolveRunConfig } from '../../config/run-config.ts';
import { putCatalog } from '../../store/read-records.ts';
import type { SandboxProvider } from '../../sandboxes/sandbox.ts';
import { openStore, sqliteUrl } from '../../store/open-store.ts';
import type { Store } from '../../store/store.ts';
import { EndpointClient } from '../../endpoints/endpoint-client.ts';
import { createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import type { Engine } from '../../trainer/engine.ts';
import { describePolicy } from '../../trainer/model/describe-policy.ts';
import { fingerprintOf, MadeOfFiles } from '../../trainer/checkpoints/policy-files.ts';
import { loadTokenizer } from '../../trainer/tokenizer/load-tokenizer.ts';
import { openProvider } from '../../workers/sandbox-provider.ts';
import { readSandboxSettings } from '../../workers/settings.ts';
import { hostQueue, QUEUES } from '../../protocol/queues.ts';
import type { RunConfig } from '../../protocol/run-config.ts';
import { startOwnWorkers, withOwnTemporal } from '../own-temporal.ts';
import { STARTER_LAYERS, starterOf } from './deeper-starter.ts';
import { trainInMemory } from './memory-runner.ts';
import { MemoryStore } from './memory-store.ts';

export interface DurabilityOptions {
  /** Blocks of each kind. */
  readonly blocks: number;
  /** Training steps per block. */
  readonly steps: number;
  /** Groups of four rollouts per step. */
  readonly tasks: number;
  /** Layers of the policy: the starter's own, and after them layers that only add cost. */
  readonly layers: number;
}

const HOST = 'bench-host';

function jobConfig(
  run: string,
  dir: string,
  { task, base }: DurabilityParts,
  { steps, tasks, layers }: DurabilityOptions,
): RunConfig {
  const given = {
    run,
    dir,
    steps,
    policy: { base },
    task: { name: task, train: 4000 },
    batch: { tasks, samples: 4 },
    agent: { maxTurns: 5, maxContextTokens: 700, toolTimeoutSeconds: 20 },
    sampling: { maxTokens: 120 },
    dispatcher: { type: 'bounded', maxParallelAgents: 40 },
    algorithm: { normaliseByStd: false, learningRate: (2e-4 * STARTER_LAYERS) / layers, epochs: 2 },
  };
  return resolveRunConfig(given, dir);
}

/** The parts that both kinds of block share. */
export interface DurabilityParts {
  readonly task: string;
  /** The policy's directory. */
  readonly base: string;
  readonly engine: Engine;
  readonly provider: SandboxProvider;
  readonly tokenizerOf: () => Promise<PolicyTokenizer>;
  close(): Promise<void>;
}

async function realParts(dir: string, layers: number): Promise<DurabilityParts> {
  process.env['TF_NUM_INTRAOP_THREADS'] ??= String(Math.max(1, Math.floor(availableParallelism() / 2)));
  const provider = await openProvider('bubblewrap', join(dir, 'sandboxes'), readSandboxSettings());
  const engine = await createEmbeddedEngine();
  const base = await starterOf(layers, dir);
  const tokenizer = loadTokenizer(base);
  const close = async () => {
    await engine.close();
    await provider.sweep(() => false);
  };
  return { task: 'swe-mini', base, engine, provider, tokenizerOf: () => tokenizer, close };
}

function activitiesOver(store: Store, { engine, provider, tokenizerOf }: DurabilityParts, address = '') {
  const digests = new MadeOfFiles(fingerprintOf, 64);
  const tasks = new TaskLoader(store);
  const host = { host: HOST, maxLiveSandboxes: 1000, sandboxTtlSeconds: 600 };
  return {
    init: createInitActivities({ store, tasks, provider, ...host }),
    gpu: createGpuActivities({
      store,
      tasks,
      endpoints: new EndpointClient(),
      ...embeddedOnly({ engine, tokenizerOf, digestOf: (dir) => digests.of(dir) }),
    }),
    agentRun: createAgentRunActivities({ store, tasks, provider, ...host }),
    reward: createRewardActivities({ store, tasks, provider, ...host }),
    orchestrator: createOrchestratorActivities({
      store,
      tasks,
      temporal: { address, namespace: 'default', ui: '' },
      describePolicy,
    }),
  };
}

async function startWorkers(address: string, store: Store, parts: DurabilityParts) {
  const { init, gpu, agentRun, reward, orchestrator } = activitiesOver(store, parts, address);
  const activities = {
    [QUEUES.orchestrator]: orchestrator,
    [QUEUES.init]: init,
    [QUEUES.gpu]: gpu,
    [hostQueue(HOST)]: agentRun,
    [QUEUES.reward]: reward,
  };
  return startOwnWorkers({
    address,
    workflows: '../workflows',
    from: import.meta,
    activities,
    slots: 100,
    cachedWorkflows: 600,
  });
}

interface Block {
  readonly seconds: number;
  readonly sha256: string;
}

async function timed(work: () => Promise<string>): Promise<Block> {
  const begun = performance.now();
  const sha256 = await work();
  return { seconds: (performance.now() - begun) / 1000, sha256 };
}

async function inMemory(run: string, dir: string, options: DurabilityOptions, parts: DurabilityParts): Promise<Block> {
  const store = new MemoryStore();
  const asked = jobConfig(run, dir, parts, options);
  const { sources, ...pools } = await checkTasksOfRun(asked, new TaskLoader());
  const config = { ...asked, opened: { catalog: await putCatalog({ sources }, store), ...pools } };
  const { init, gpu, agentRun, reward, orchestrator } = activitiesOver(store, parts);
  return timed(() =>
    trainInMemory(config, join(dir, run), { ...init, ...gpu, ...agentRun, ...reward, ...orchestrator }),
  );
}

interface Place {
  readonly client: Client;
  readonly store: Store;
  readonly dir: string;
}

async function durable(
  run: string,
  parts: DurabilityParts,
  options: DurabilityOptions,
  { client, store, dir }: Place,
): Promise<Block> {
  const tasks = new TaskLoader(store);
  const { config, runDir } = await openRun(jobConfig(run, dir, parts, options), run, { store, tasks, describePolicy });
  const start = { taskQueue: QUEUES.orchestrator, workflowId: `train/${run}`, args: [config, runDir] };
  return timed(() => client.workflow.execute('steps', start));
}

async function measure(place: Place, options: DurabilityOptions, parts: DurabilityParts, note: (line: string) => void) {
  const warm = { ...options, steps: 1 };
  await inMemory('warm-memory', place.dir, warm, parts);
  await durable('warm-durable', parts, warm, place);
  const blocks: Array<{ readonly durable: Block; readonly inMemory: Block }> = [];
  for (let n = 0; n < options.blocks; n += 1) {
    const memory = await inMemory(`memory-${n}`, place.dir, options, parts);
    const kept = await durable(`durable-${n}`, parts, options, place);
    blocks.push({ durable: kept, inMemory: memory });
    note(
      `block ${n + 1}/${options.blocks}: ${kept.seconds.toFixed(1)} s durable, ${memory.seconds.toFixed(1)} s ` +
        'in memory',
    );
  }
  const all = blocks.length * options.steps;
  const perSecond = (kind: 'durable' | 'inMemory') => all / blocks.reduce((sum, block) => sum + block[kind].seconds, 0);
  const stepsPerSecond = { durable: perSecond('durable'), inMemory: perSecond('inMemory') };
  const digests = new Set(blocks.flatMap((block) => [block.durable.sha256, block.inMemory.sha256]));
  return {
    stepsPerSecond,
    ratio: stepsPerSecond.durable / stepsPerSecond.inMemory,
    /** True if all blocks of both kinds ended with the same weights. */
    identical: digests.size === 1,
    rolloutsPerStep: options.tasks * 4,
    layers: options.layers,
    blocks: blocks.map((block) => ({ durable: block.durable.seconds, inMemory: block.inMemory.seconds })),
    cores: availableParallelism(),
  };
}

/** Starts and stops its own server, workers and sandboxes; `openParts` is for tests. */
export async function benchDurability(options: DurabilityOptions, note: (line: string) => void, openParts = realParts) {
  return withOwnTemporal(async ({ address, dir: home }) => {
    const store = await openStore(sqliteUrl(join(home, 'store')));
    const dir = join(home, 'runs');
    await mkdir(dir);
    const parts = await openParts(home, options.layers);
    const stop = await startWorkers(address, store, parts);
    const connection = await Connection.connect({ address });
    try {
      return await measure({ client: new Client({ connection }), store, dir }, options, parts, note);
    } finally {
      await connection.close();
      await stop();
      await parts.close();
      await store.close();
    }
  });
}
