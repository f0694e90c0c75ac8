/**
 * Hunts evaluations that reach the engine as if they were training: the engine serves by the priority of the activity,
 * which a batch gives its rollouts and Temporal passes on. On a real server; the engine records its requests.
 */
import { embeddedOnly } from '../../../activities/backends/embedded-backend.ts';
import { TaskLoader } from '../../../tasks/task-loader.ts';
import { expect, it } from 'vitest';
import { createGpuActivities } from '../../../activities/gpu.ts';
import { emptyEngine, emptyEnvironment, emptyTokenizer } from '../../../benchmarks/empty-parts.ts';
import { defineEnvironment } from '../../../tasks/registry.ts';
import { EndpointClient } from '../../../endpoints/endpoint-client.ts';
import type { BatchPriority } from '../../../protocol/batch.ts';
import { useStoreWorld } from '../../support/use-store-world.ts';

const asked: Array<readonly [rollout: string, priority: number | undefined]> = [];

defineEnvironment(emptyEnvironment);
const world = useStoreWorld((store) => {
  const engine = emptyEngine(2);
  const noting: typeof engine = {
    ...engine,
    generate: (request) => {
      asked.push([request.cacheKey, request.priority]);
      return engine.generate(request);
    },
  };
  return {
    gpu: createGpuActivities({
      store,
      tasks: new TaskLoader(store),
      endpoints: new EndpointClient({}),
      ...embeddedOnly({ engine: noting, tokenizerOf: async () => emptyTokenizer, digestOf: async () => 'd' }),
    }),
  };
});

it("a sweep's turns have a lower priority in the engine than training's, of which nothing is said", async () => {
  for (const priority of ['eval', 'train'] satisfies BatchPriority[]) {
    const input = {
      run: priority,
      name: 'b',
      step: 1,
      tasks: ['empty-train-0'],
      samples: 1,
      priority,
      seed: 1,
      dispatcher: { type: 'batch' },
      policy: { uri: 'file:///p', version: 1 },
      agent: { maxTurns: 3, maxContextTokens: 1000, toolTimeoutSeconds: 10 },
      sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 10 },
    };
    await (await world.start('batch', priority, input)).result();
  }
  const of = (name: string) => asked.filter(([rollout]) => rollout.startsWith(name)).map(([, priority]) => priority);
  expect(of('eval/')).toEqual([4, 4]);
  expect(of('train/')).toEqual([undefined, undefined]);
});
