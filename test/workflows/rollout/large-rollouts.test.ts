/**
 * Large observations and long transcripts through the real activities and a real server: hunts a payload that grows
 * with them, up to Temporal's limits (a warning at 512 KB, an error at 2 MB, 4 MB per message). Model and sandbox are
 * scripted.
 */
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import type { Task } from '../../../tasks/environment.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { Client, Connection } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createGpuActivities } from '../../../activities/gpu.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { actsOf, turnsOf } from '../../../store/read-records.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { transitionsOf } from '../../../trainer/data/merge-transitions.ts';
import { emptyTask, emptyProvider, emptyTokenizer } from '../../../benchmarks/empty-parts.ts';
import { largestPayload } from '../../../benchmarks/batch.ts';
import { startOwnWorkers } from '../../../benchmarks/own-temporal.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import type { Engine } from '../../../trainer/engine.ts';
import { mergeTransitions } from '../../../trainer/data/merge-transitions.ts';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';
import { hostQueue, QUEUES } from '../../../protocol/queues.ts';

const [TURNS, TOKENS_A_TURN, HOST] = [33, 4000, 'test-host'];
const OBSERVATION = 'an observation\n'.repeat(70_000);
const dir = mkdtempSync(join(tmpdir(), 'longhaul-large-'));
let server: PrivateServer;
let store: Store;
let client: Client;
let stop: () => Promise<void>;

/** Samples much in every turn, and calls a tool in all turns except the last. */
const engine: Engine = {
  async generate({ noiseKey }) {
    const last = Number(noiseKey.slice(noiseKey.lastIndexOf('/') + 1)) >= TURNS;
    const tokens = [last ? 1 : 2, ...Array.from({ length: TOKENS_A_TURN - 2 }, (_, i) => i + 3), 0];
    return { tokens, logprobs: tokens.map((_, i) => -0.123_456_78 - i / 1e6), finishReason: 'stop' };
  },
  update: () => Promise.reject(new Error('not asked for')),
  close: async () => undefined,
};
/** Every command prints a megabyte, up to the tool's limit. */
const provider = {
  ...emptyProvider,
  connect: async (id: string) => ({
    ...(await emptyProvider.connect(id)),
    exec: async () => ({
      exitCode: 0,
      signal: null,
      output: OBSERVATION,
      droppedBytes: 0,
      timedOut: false,
      outOfMemory: false,
      durationMs: 1,
    }),
  }),
};

beforeAll(async () => {
  const large: Task = { ...emptyTask, collect: async () => Buffer.alloc(1_000_000, 'diff') };
  defineEnvironment({
    name: 'empty',
    open: async () => ({ digest: 'large', splits: { train: 1000 }, load: async () => large }),
  });
  server = await startPrivateServer(dir);
  store = openSqliteStore(join(dir, 'store'));
  const limits = { host: HOST, maxLiveSandboxes: 10, sandboxTtlSeconds: 600 };
  stop = await startOwnWorkers({
    address: server.address,
    workflows: '../../../benchmarks/workflows',
    from: import.meta,
    slots: 10,
    cachedWorkflows: 10,
    activities: {
      [QUEUES.init]: createInitActivities({ store, tasks: new TaskLoader(store), provider, ...limits }),
      [QUEUES.gpu]: createGpuActivities({
        store,
        tasks: new TaskLoader(store),
        endpoints: new EndpointClient(),
        ...embeddedOnly({ engine, tokenizerOf: async () => emptyTokenizer, digestOf: async () => 'd' }),
      }),
      [hostQueue(HOST)]: createAgentRunActivities({
        store,
        tasks: new TaskLoader(store),
        provider,
        host: HOST,
        sandboxTtlSeconds: 600,
      }),
      [QUEUES.reward]: createRewardActivities({ store, tasks: new TaskLoader(store), provider, host: HOST }),
    },
  });
  client = new Client({ connection: await Connection.connect({ address: server.address }) });
});
afterAll(async () => {
  await client?.connection.close();
  await stop?.();
  await store?.close();
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

it('a rollout of 128k tokens with observations and a diff of a megabyte keeps its history small, and all of it is training data', async () => {
  const agent = { maxTurns: 100, maxContextTokens: 1_000_000, toolTimeoutSeconds: 60 };
  const handle = await client.workflow.start('rollout', {
    taskQueue: QUEUES.orchestrator,
    workflowId: 'large',
    args: [{ task: 'empty-train-0', policy: { uri: 'file:///empty', version: 0 }, agent }],
  });
  expect(await handle.result()).toMatchObject({ status: 'graded', turns: TURNS, attempt: 1 });
  const history = await handle.fetchHistory();
  expect(largestPayload(history)).toBeGreaterThan(0);
  expect(largestPayload(history)).toBeLessThan(4096);
  const { historySize = 0 } = await handle.describe();
  expect(historySize / TURNS).toBeLessThan(3500);
  const attempt = { rollout: 'large', attempt: 1 };
  const [turns, acts] = [await turnsOf(store, attempt), await actsOf(store, attempt)];
  const observed = [...acts.values()].flatMap(({ messages }) => messages.map(({ content }) => content.length));
  // The tool's own limit bounds what is shown of it.
  expect(Math.max(...observed)).toBeGreaterThan(5000);
  const merged = mergeTransitions(transitionsOf(turns));
  expect(merged.length).toBe(1);
  expect(merged[0]?.tokens.length).toBeGreaterThan(128_000);
});
