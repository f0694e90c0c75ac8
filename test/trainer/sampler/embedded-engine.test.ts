import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type EmbeddedEngine,
  type EmbeddedEngineOptions,
  EngineLost,
  createEmbeddedEngine,
} from '../../../trainer/embedded/embedded-engine.ts';
import type { UpdateRequest } from '../../../trainer/update-request.ts';
import type { GenerateRequest } from '../../../trainer/generate-request.ts';
import type { GenerateCost } from '../../../protocol/sampling.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { Sampler } from '../../../trainer/sampler/sampler.ts';
import { qwen3Dir } from '../tiny-policy.ts';

function request(name: number, maxTokens = 20): GenerateRequest {
  return {
    policy: { dir: qwen3Dir, version: 0 },
    cacheKey: `rollout ${name}`,
    tokens: [304, 452, 450, 459 + name],
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens },
    stopTokenIds: [],
    noiseKey: `noise ${name}`,
  };
}

let engine: EmbeddedEngine;
let folder: string;
beforeAll(async () => {
  engine = await createEmbeddedEngine();
  folder = await mkdtemp(path.join(os.tmpdir(), 'longhaul-engine-'));
});
afterAll(async () => {
  await engine.close();
  await rm(folder, { recursive: true, force: true });
});

function updateTo(version: number, learningRate: number, advantage: number): UpdateRequest {
  const tokens = [304, 452, 450, 459, 67, 67, 67];
  return {
    fromDir: qwen3Dir,
    toDir: path.join(folder, `version-${version}`),
    toVersion: version,
    data: [{ tokens, mask: [0, 0, 0, 0, 1, 1, 1], logprobs: [0, 0, 0, 0, -2, -1, -1], advantage }],
    algorithm: {
      learningRate,
      epochs: 1,
      minibatches: 1,
      clipLow: 0.2,
      clipHigh: 0.28,
      maxGradNorm: 1,
      weightDecay: 0,
      betas: [0.9, 0.999],
      epsilon: 1e-8,
      microBatchTokens: 1024,
    },
  };
}

describe('the engine in its thread', () => {
  it('answers as the sampler does, many requests at once', async () => {
    const sampler = new Sampler({ load: ({ dir }) => loadPolicy(dir) });
    const wanted = await Promise.all([0, 1, 2, 3].map((name) => sampler.generate(request(name))));
    sampler.dispose();
    const costs: GenerateCost[] = [];
    expect(
      await Promise.all(
        [0, 1, 2, 3].map((name) => engine.generate(request(name), undefined, (cost) => costs.push(cost))),
      ),
    ).toEqual(wanted);
    expect(costs.map(({ batchSize }) => batchSize >= 1)).toEqual([true, true, true, true]);
    expect(await engine.stats()).toMatchObject({ sampledTokens: 80, policiesLoaded: 1, active: 0, waiting: 0 });
  });

  it('reports errors with the name and the fields of their class', async () => {
    await expect(engine.generate({ ...request(1), tokens: [100_000] })).rejects.toMatchObject({
      name: 'InvalidRequest',
      field: 'tokens',
      value: 100_000,
    });
    const missing = { ...request(1), policy: { dir: path.join(folder, 'nowhere'), version: 9 } };
    await expect(engine.generate(missing)).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('stops a generation that its caller aborts, and only that one', async () => {
    const controller = new AbortController();
    const { admitted } = await engine.stats();
    const given = engine.generate(request(1, 1900), controller.signal);
    const other = engine.generate(request(2, 40));
    // Not asserted: how many run. The short one may have ended before the check.
    while ((await engine.stats()).admitted < admitted + 2) await new Promise((resolve) => setImmediate(resolve));
    controller.abort(new Error('the caller left'));
    await expect(given).rejects.toThrow('the caller left');
    expect((await other).tokens).toHaveLength(40);
    expect((await engine.stats()).active).toBe(0);
    await expect(engine.generate(request(1), AbortSignal.abort(new Error('too late')))).rejects.toThrow('too late');
  });

  it('updates after the generations before it, and samples from what it wrote', async () => {
    const order: string[] = [];
    const note = <T>(name: string, result: Promise<T>): Promise<T> => result.finally(() => order.push(name));
    const before = await engine.generate(request(1));
    const update = updateTo(1, 0.05, 1);
    const fractions: number[] = [];
    const [old, , fresh] = await Promise.all([
      note('before', engine.generate(request(1))),
      note(
        'update',
        engine.update(update, (fraction) => fractions.push(fraction)),
      ),
      note('after', engine.generate({ ...request(1), policy: { dir: update.toDir, version: 1 } })),
    ]);
    expect(order).toEqual(['before', 'update', 'after']);
    expect(old).toEqual(before);
    expect(fresh.logprobs).not.toEqual(old.logprobs);
    expect(fractions.at(-1)).toBe(1);
    expect(await engine.stats()).toMatchObject({ updates: 1 });
  });

  it('records the log-probabilities that the trainer computes too', async () => {
    const wanted = [0, 1, 2, 3].map((name) => ({ ...request(name, 120), tokens: [304, 452, 450, 459 + name, 460] }));
    const data = await Promise.all(
      wanted.map(async (asked) => {
        const { tokens, logprobs } = await engine.generate(asked);
        const zeros = asked.tokens.map(() => 0);
        return {
          tokens: [...asked.tokens, ...tokens],
          mask: [...zeros, ...tokens.map(() => 1)],
          logprobs: [...zeros, ...logprobs],
          advantage: 1,
        };
      }),
    );
    const { logprobDrift, trainedTokens } = await engine.update({ ...updateTo(4, 0.001, 1), data });
    expect(trainedTokens).toBe(480);
    expect(logprobDrift.maxAbs).toBeGreaterThan(0);
    expect(logprobDrift.maxAbs).toBeLessThan(1e-4);
  });

  it('survives an update that fails', async () => {
    await expect(engine.update({ ...updateTo(2, 0.1, 1), data: [] })).rejects.toMatchObject({ name: 'NothingToTrain' });
    expect((await engine.generate(request(1))).tokens).toHaveLength(20);
  });
});

async function lostEngine(options: EmbeddedEngineOptions & { readonly how?: string }): Promise<EmbeddedEngine> {
  const thread = new URL('./threads/dies-when-asked.ts', import.meta.url);
  return createEmbeddedEngine({ thread, ...options });
}

describe('a thread that dies', () => {
  it('fails waiting and later requests with EngineLost', async () => {
    const dying = await lostEngine({});
    const waiting = [dying.generate(request(1)), dying.generate(request(2)), dying.update(updateTo(3, 0.1, 1))];
    for (const result of await Promise.allSettled(waiting)) {
      expect(result).toMatchObject({ status: 'rejected', reason: { name: 'EngineLost', exitCode: 7 } });
    }
    await expect(dying.generate(request(3))).rejects.toBeInstanceOf(EngineLost);
    await dying.close();
  });

  it('reports the error that ended it', async () => {
    const dying = await lostEngine({ how: 'throw' });
    await expect(dying.generate(request(1))).rejects.toMatchObject({
      name: 'EngineLost',
      cause: { message: 'out of luck' },
    });
  });

  it('fails the start when it cannot start', async () => {
    const thread = new URL('./threads/dies-at-once.ts', import.meta.url);
    await expect(createEmbeddedEngine({ thread })).rejects.toMatchObject({
      name: 'EngineLost',
      cause: { message: 'no TensorFlow here' },
    });
  });
});

it("passes its thread's output to `onOutput`, line by line", async () => {
  const said: string[] = [];
  const thread = new URL('./threads/prints.ts', import.meta.url);
  await createEmbeddedEngine({ thread, onOutput: (line) => said.push(line) });
  await expect.poll(() => said.toSorted()).toEqual(['a greeting', 'a warning', 'of two lines']);
});

describe('closing', () => {
  it('ends the thread and fails waiting requests', async () => {
    const closing = await createEmbeddedEngine();
    const running = closing.generate(request(1, 900));
    const failed = expect(running).rejects.toBeInstanceOf(EngineLost);
    await closing.close();
    await failed;
    await expect(closing.stats()).rejects.toBeInstanceOf(EngineLost);
  });
});
