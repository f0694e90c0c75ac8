/**
 * Hunts training that stops because another server is slow: requests that wait for it take the places that the engine's
 * turns need. Real Temporal, the worker's own queues with two places each, and real HTTP; the engine and the sandboxes
 * do nothing. Not asserted: times.
 */
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { Client, Connection } from '@temporalio/client';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createGpuActivities } from '../../../activities/gpu.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { emptyEngine, emptyEnvironment, emptyProvider, emptyTokenizer } from '../../../benchmarks/empty-parts.ts';
import { startOwnWorkers } from '../../../benchmarks/own-temporal.ts';
import { openSqliteStore } from '../../../store/sqlite-store.ts';
import type { Store } from '../../../store/store.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import { queuesOf } from '../../../workers/roles/gpu.ts';
import { type PrivateServer, startPrivateServer } from '../../../stack/temporal-server/private-server.ts';
import { hostQueue, QUEUES } from '../../../protocol/queues.ts';
import { type Handler, type LoopbackServer, startLoopback } from '../../support/endpoint/http-server.ts';
import { quietTemporal } from '../../support/quiet-temporal.ts';

quietTemporal();

const HOST = 'slow-host';
const SLOTS = 2;
const dir = mkdtempSync(join(tmpdir(), 'longhaul-slow-'));
let temporal: PrivateServer;
let store: Store;
let client: Client;
let endpoint: LoopbackServer;
let stop: () => Promise<void>;
let held = 0;
const released = Promise.withResolvers<void>();

const finish = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: '1', type: 'function', function: { name: 'finish', arguments: '{}' } }],
};

/** Answers the check that samples one token, and no turn before it is released. */
const slowly: Handler = async ({ path, body }) => {
  if (path === '/v1/models') return { body: { object: 'list', data: [{ id: 'm' }] } };
  if (body['max_tokens'] !== 1) {
    held += 1;
    await released.promise;
  }
  return {
    body: {
      choices: [{ index: 0, message: finish, finish_reason: 'tool_calls' }],
      usage: { prompt_tokens: 9, completion_tokens: 3 },
    },
  };
};

beforeAll(async () => {
  defineEnvironment(emptyEnvironment);
  temporal = await startPrivateServer(dir);
  store = openSqliteStore(join(dir, 'store'));
  endpoint = await startLoopback(slowly);
  const limits = { host: HOST, maxLiveSandboxes: 100, sandboxTtlSeconds: 600 };
  const gpu = createGpuActivities({
    store,
    tasks: new TaskLoader(store),
    endpoints: new EndpointClient({}),
    ...embeddedOnly({ engine: emptyEngine(2), tokenizerOf: async () => emptyTokenizer, digestOf: async () => 'd' }),
  });
  stop = await startOwnWorkers({
    address: temporal.address,
    workflows: '../../../benchmarks/workflows',
    from: import.meta,
    slots: SLOTS,
    cachedWorkflows: 10,
    activities: {
      [QUEUES.init]: createInitActivities({ store, tasks: new TaskLoader(store), provider: emptyProvider, ...limits }),
      ...Object.fromEntries(queuesOf({ does: 'both', pool: undefined }, 'gpu', { ...gpu })),
      [hostQueue(HOST)]: createAgentRunActivities({
        store,
        tasks: new TaskLoader(store),
        provider: emptyProvider,
        host: HOST,
        sandboxTtlSeconds: 600,
      }),
      [QUEUES.reward]: createRewardActivities({
        store,
        tasks: new TaskLoader(store),
        provider: emptyProvider,
        host: HOST,
      }),
    },
  });
  client = new Client({ connection: await Connection.connect({ address: temporal.address }) });
});
afterAll(async () => {
  released.resolve();
  await client?.connection.close();
  await stop?.();
  await endpoint?.close();
  await store?.close();
  await temporal?.stop();
  rmSync(dir, { recursive: true, force: true });
});

const start = (workflowId: string, policy: object) =>
  client.workflow.start('rollout', {
    taskQueue: QUEUES.orchestrator,
    workflowId,
    args: [
      { task: 'empty-train-0', policy, agent: { maxTurns: 3, maxContextTokens: 100_000, toolTimeoutSeconds: 60 } },
    ],
  });

it('turns that fill every place of an endpoint leave the engine its own, and end when the server answers', async () => {
  const policy = { endpoint: { baseUrl: endpoint.baseUrl, model: 'm', mode: 'chat' } };
  const slow = await Promise.all(Array.from({ length: 2 * SLOTS }, (_, i) => start(`slow-${i}`, policy)));
  await expect.poll(() => held).toBe(SLOTS);
  const own = await start('own', { uri: 'file:///empty', version: 0 });
  expect(await own.result()).toMatchObject({ status: 'graded', turns: 2 });
  expect(held).toBe(SLOTS);
  released.resolve();
  for (const handle of slow) expect(await handle.result()).toMatchObject({ status: 'graded', turns: 1 });
});
