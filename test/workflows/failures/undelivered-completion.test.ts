/**
 * The server is stopped for longer than the heartbeat timeout, at the moment when a model call, a tool call, a
 * collected diff and a verdict are recorded and not yet reported. Why: Temporal delivers an activity at least once; it
 * gives these up as timed out and starts them again. Asserted: recorded work does not run again, and every rollout
 * ends. Not asserted: that the server did start them again; a delivery just in time may make this unnecessary.
 */
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it } from 'vitest';
import { createAgentRunActivities } from '../../../activities/agent-run/agent-run.ts';
import { createGpuActivities } from '../../../activities/gpu.ts';
import { createInitActivities } from '../../../activities/init/init.ts';
import { createRewardActivities } from '../../../activities/reward/reward.ts';
import { emptyEngine, emptyEnvironment, emptyProvider, emptyTokenizer } from '../../../benchmarks/empty-parts.ts';
import type { Store } from '../../../store/store.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

const TURNS = 3;
/** Heartbeats may take 15 s. */
const STANDS_MS = 30_000;
const RECORDS = ['generate', 'act', 'collect', 'verdict'];

const reached = new Set<string>();
const all = Promise.withResolvers<void>();
const stopped = Promise.withResolvers<void>();
const asked: string[] = [];

/** Each rollout waits at the record that it is named for, until all wait and the server is stopped. */
function holdingUp(real: Store): Store {
  const held = async <T>(key: string, kept: T): Promise<T> => {
    const name = RECORDS.find((kind) => key.startsWith(`${kind}:held/${kind}#1`));
    if (name === undefined || reached.has(name)) return kept;
    reached.add(name);
    if (reached.size === RECORDS.length) all.resolve();
    await stopped.promise;
    return kept;
  };
  const holding: Pick<Store, 'putOnce' | 'putOnceWithObject'> = {
    putOnce: async (key, value) => held(key, await real.putOnce(key, value)),
    putOnceWithObject: async (key, bytes, valueOf) => held(key, await real.putOnceWithObject(key, bytes, valueOf)),
  };
  return new Proxy(real, {
    get: (target, name) =>
      name in holding
        ? holding[name as keyof typeof holding]
        : (Reflect.get(target, name) as () => unknown).bind(target),
  });
}

defineEnvironment(emptyEnvironment);
const world = useStoreWorld((store) => {
  const slow = holdingUp(store);
  const engine = emptyEngine(TURNS);
  const generate = engine.generate.bind(engine);
  engine.generate = (request, signal) => {
    asked.push(`${request.cacheKey} ${request.noiseKey.split('/').at(-1)}`);
    return generate(request, signal);
  };
  const provider = emptyProvider;
  const tasks = new TaskLoader(slow);
  const parts = { store: slow, tasks, provider, host: 'test-host', maxLiveSandboxes: 100, sandboxTtlSeconds: 600 };
  return {
    init: createInitActivities(parts),
    agentRun: createAgentRunActivities(parts),
    gpu: createGpuActivities({
      store: slow,
      tasks,
      endpoints: new EndpointClient(),
      ...embeddedOnly({ engine, tokenizerOf: async () => emptyTokenizer, digestOf: async () => 'd' }),
    }),
    reward: createRewardActivities(parts),
  };
});
const { store } = world;
// Registered before the server's stop, to run after it: hooks run in reverse order.
afterAll(() => void process.kill(world.server.pid, 'SIGCONT'));

it('a finished and recorded call never runs again, although its completion was not delivered for 30 s', async () => {
  const agent = { maxTurns: TURNS, maxContextTokens: 100_000, toolTimeoutSeconds: 60 };
  const input = { task: 'empty-train-0', policy: { uri: 'file:///empty', version: 0 }, agent, run: 'held' };
  const handles = await Promise.all(RECORDS.map((kind) => world.start('rollout', `held/${kind}`, input)));
  await all.promise;
  process.kill(world.server.pid, 'SIGSTOP');
  stopped.resolve();
  await sleep(STANDS_MS);
  process.kill(world.server.pid, 'SIGCONT');
  for (const handle of handles)
    expect(await handle.result()).toMatchObject({ status: 'graded', attempt: 1, turns: TURNS });
  expect([...reached].sort()).toEqual(RECORDS.toSorted());
  const keys = (await store.executions(0)).map(({ key }) => key);
  expect(keys.length).toBe(4 * (2 * TURNS + 2));
  expect(keys.filter((key, i) => keys.indexOf(key) !== i)).toEqual([]);
  expect(asked.toSorted()).toEqual([...new Set(asked)].sort());
});
