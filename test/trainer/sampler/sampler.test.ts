import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import type { GenerateRequest } from '../../../trainer/generate-request.ts';
import type { GenerateCost } from '../../../protocol/sampling.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { ContextTooLong, InvalidRequest } from '../../../trainer/sampler/generation.ts';
import type { LoadedPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { Sampler, type SamplerOptions } from '../../../trainer/sampler/sampler.ts';
import { cacheBytesPerToken } from '../../../trainer/sampler/cache/cache-budget.ts';
import { randomIds, randomWeights, smallShape } from './random-policy.ts';

const config: ModelConfig = { ...smallShape, layers: 2, hiddenSize: 64, intermediateSize: 128 };
const policies: Record<string, LoadedPolicy> = {
  one: { config, weights: randomWeights(config, 1), vocabulary: config.vocabSize },
  two: { config, weights: randomWeights(config, 2), vocabulary: config.vocabSize },
  narrow: { config, weights: randomWeights(config, 1), vocabulary: 5 },
  other: {
    config: { ...config, kvHeads: 2, vocabSize: 100 },
    weights: randomWeights({ ...config, kvHeads: 2, vocabSize: 100 }, 3),
    vocabulary: 100,
  },
};

const open: Sampler[] = [];
let loads: string[] = [];

function sampler(options: Partial<SamplerOptions> = {}): Sampler {
  const made = new Sampler({
    maxContext: 256,
    load: ({ dir }) => {
      loads.push(dir);
      const policy = policies[dir];
      return policy === undefined ? Promise.reject(new RangeError(`no policy ${dir}`)) : Promise.resolve(policy);
    },
    ...options,
  });
  open.push(made);
  return made;
}

afterEach(async () => {
  for (const made of open.splice(0)) {
    await made.idle();
    made.dispose();
  }
  loads = [];
});

type Wishes = Partial<GenerateRequest> & { readonly dir?: string; readonly maxTokens?: number };

function request(name: number, wishes: Wishes = {}): GenerateRequest {
  const { dir = 'one', maxTokens = 12, ...rest } = wishes;
  return {
    policy: { dir, version: 1 },
    cacheKey: `rollout ${name}`,
    tokens: randomIds(name, 20 + ((name * 17) % 90), 100),
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens },
    stopTokenIds: [],
    noiseKey: `noise ${name}`,
    ...rest,
  };
}

const names = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

describe('the cache', () => {
  it('holds only blocks of loaded policies, after any number of versions', async () => {
    const made = sampler();
    const idle: number[] = [];
    for (const version of names(6)) {
      await Promise.all(names(4).map((name) => made.generate({ ...request(name), policy: { dir: 'one', version } })));
      await made.idle();
      idle.push(made.stats().blocks.idle);
    }
    expect(made.stats()).toMatchObject({ policiesLoaded: 6, blocks: { used: 0, evicted: 0 } });
    // The last two policies stay; one policy's blocks are half of them.
    expect(idle).toEqual([idle[0], ...Array.from({ length: 5 }, () => 2 * (idle[0] ?? 0))]);
  });
});

describe('what a request gets', () => {
  it('is the same alone, among others, after eviction and without room', async () => {
    const roomy = sampler();
    const alone = [];
    for (const name of names(24)) alone.push(await sampler().generate(request(name)));
    expect(await Promise.all(names(24).map((name) => roomy.generate(request(name))))).toEqual(alone);
    expect(
      await Promise.all(
        names(24)
          .reverse()
          .map((name) => roomy.generate(request(name))),
      ),
    ).toEqual(alone.toReversed());
    // Two slots for 24 rollouts, so every prompt is evicted and rebuilt.
    const slotBytes = 4 * 2 * config.layers * config.headDim * 256;
    const tight = sampler({ cacheBytes: 2 * slotBytes, prefillTokens: 32 });
    expect(await Promise.all(names(24).map((name) => tight.generate(request(name))))).toEqual(alone);
    expect(await tight.generate(request(3))).toEqual(alone[3]);
  });

  it('is the same when a turn continues from its cache and when nothing is cached', async () => {
    const warm = sampler();
    const first = request(1);
    const turn = await warm.generate(first);
    const next = request(1, {
      tokens: [...first.tokens, ...turn.tokens, ...randomIds(9, 30, 100)],
      noiseKey: 'turn 2',
    });
    const before = warm.stats().prefillTokens;
    const continued = await warm.generate(next);
    expect(warm.stats().prefillTokens - before).toBe(
      next.tokens.length - (first.tokens.length + turn.tokens.length - 1),
    );
    expect(await sampler().generate(next)).toEqual(continued);
  });

  it('depends on the noise key, not on the cache key', async () => {
    const one = await sampler().generate(request(1));
    expect(await sampler().generate(request(1, { cacheKey: 'other' }))).toEqual(one);
    expect((await sampler().generate(request(1, { noiseKey: 'other' }))).tokens).not.toEqual(one.tokens);
  });
});

describe('one prompt for many', () => {
  it('is computed once, and each sample is the same as alone', async () => {
    const tokens = randomIds(77, 100, 100);
    const group = names(8).map((name) => request(name, { tokens }));
    const shared = sampler();
    const results = await Promise.all(group.map((member) => shared.generate(member)));
    expect(shared.stats().cachedTokens).toBe(7 * 99);
    expect(shared.stats().prefillTokens).toBe(100);
    expect(new Set(results.map(({ tokens: sampled }) => sampled.join())).size).toBe(8);
    for (const [i, member] of group.entries()) expect(await sampler().generate(member)).toEqual(results[i]);
  });
});

describe('the end of a generation', () => {
  it('is a stop token, which it includes', async () => {
    const free = await sampler().generate(request(2, { maxTokens: 30 }));
    const stop = free.tokens[10] ?? -1;
    const first = free.tokens.indexOf(stop);
    const stopped = await sampler().generate(request(2, { maxTokens: 30, stopTokenIds: [stop] }));
    expect(stopped).toEqual({
      tokens: free.tokens.slice(0, first + 1),
      logprobs: free.logprobs.slice(0, first + 1),
      finishReason: 'stop',
    });
  });

  it('is the requested number of tokens', async () => {
    const result = await sampler().generate(request(2, { maxTokens: 5 }));
    expect(result.tokens).toHaveLength(5);
    expect(result.finishReason).toBe('length');
    expect(result.logprobs.every((logprob) => logprob <= 0)).toBe(true);
  });

  it('is the end of the context', async () => {
    const full = await sampler().generate(request(2, { tokens: randomIds(2, 250, 100), maxTokens: 100 }));
    expect(full.tokens).toHaveLength(6);
    expect(full.finishReason).toBe('context');
    const refused = sampler().generate(request(2, { tokens: randomIds(2, 256, 100) }));
    await expect(refused).rejects.toMatchObject({ name: ContextTooLong.name, tokens: 256, limit: 256 });
  });

  it('is the end of what the cache holds, and a request that can never fit is refused with the numbers', async () => {
    const bytes = 48 * cacheBytesPerToken(config) + 1;
    const small = sampler({ cacheBytes: bytes, maxContext: Infinity });
    const wanted = request(2, { tokens: randomIds(2, 40, 100), maxTokens: 100 });
    const [full, other] = await Promise.all([small.generate(wanted), small.generate({ ...wanted, cacheKey: 'b' })]);
    expect(full).toMatchObject({ finishReason: 'context' });
    expect(full.tokens).toHaveLength(8);
    expect(other).toEqual(full);
    await expect(small.generate(request(2, { tokens: randomIds(2, 48, 100) }))).rejects.toThrow(
      "the prompt has 48 tokens, and the context 48 (the engine's cache of 1 MiB holds 48 of the 1024 tokens in its config.json; LONGHAUL_KV_CACHE_MIB=1 holds all)",
    );
  });

  it('is beyond 2,048 tokens where configuration and memory allow it, and changes no bit before it', async () => {
    const long = { ...policies['one']!, config: { ...config, maxPositions: 4096 } };
    const load = () => Promise.resolve(long);
    const wanted = request(3, { tokens: randomIds(3, 2300, 100), maxTokens: 6 });
    const far = await sampler({ load, maxContext: Infinity }).generate(wanted);
    expect(far).toMatchObject({ finishReason: 'length', tokens: { length: 6 } });
    const near = request(4);
    const [bounded, free] = [sampler(), sampler({ load, maxContext: Infinity })];
    expect(await free.generate(near)).toEqual(await bounded.generate(near));
  });
});

describe('policies', () => {
  it('are loaded once per version, and each request gets the one that it names', async () => {
    const mixed = sampler();
    const [ones, twos] = [names(6).map((name) => request(name)), names(6).map((name) => request(name, { dir: 'two' }))];
    const all = await Promise.all([...ones, ...twos].map((wanted) => mixed.generate(wanted)));
    const again = await Promise.all(twos.map((wanted) => mixed.generate(wanted)));
    expect(again).toEqual(all.slice(6));
    expect(all.slice(0, 6)).not.toEqual(all.slice(6));
    expect(loads).toEqual(['one', 'two']);
    for (const [i, wanted] of twos.entries()) expect(await sampler().generate(wanted)).toEqual(again[i]);
  });

  it('of other files under the same name are loaded anew', async () => {
    const overwritten = sampler();
    const wanted = request(1);
    await overwritten.generate(wanted);
    await overwritten.generate({ ...wanted, policy: { ...wanted.policy, digest: 'of the new files' } });
    expect(loads).toEqual(['one', 'one']);
  });

  it('may change their shape', async () => {
    const changing = sampler();
    const wanted = request(1, { dir: 'other' });
    const before = await changing.generate(wanted);
    await changing.generate(request(1));
    expect(await changing.generate(wanted)).toEqual(before);
  });

  it('never give ids without a token', async () => {
    const { tokens } = await sampler().generate(request(1, { dir: 'narrow', maxTokens: 60 }));
    expect(Math.max(...tokens)).toBeLessThan(5);
  });

  it('that cannot be loaded fail the requests that name them and no others', async () => {
    const mixed = sampler();
    const [good, bad] = [mixed.generate(request(1)), mixed.generate(request(2, { dir: 'missing' }))];
    await expect(bad).rejects.toThrow('no policy missing');
    expect((await good).tokens).toHaveLength(12);
  });
});

describe('the cost of a call', () => {
  it('is reported before its result: time, batch size and cached prompt tokens', async () => {
    const one = sampler();
    const costs: GenerateCost[] = [];
    const told = (cost: GenerateCost) => costs.push(cost);
    const tokens = randomIds(77, 100, 100);
    await one.generate(request(1, { tokens }), undefined, told);
    expect(costs).toEqual([
      { queueSeconds: expect.any(Number), seconds: expect.any(Number), cachedTokens: 0, batchSize: 1 },
    ]);
    expect(costs[0]!.seconds).toBeGreaterThan(0);
    await Promise.all([2, 3].map((name) => one.generate(request(name, { tokens }), undefined, told)));
    expect(costs.slice(1)).toMatchObject([
      { cachedTokens: 99, batchSize: 2 },
      { cachedTokens: 99, batchSize: 2 },
    ]);
  });

  it('is not reported if the call fails', async () => {
    const costs: GenerateCost[] = [];
    await expect(sampler().generate(request(1, { tokens: [] }), undefined, (cost) => costs.push(cost))).rejects.toThrow(
      'tokens',
    );
    expect(costs).toEqual([]);
  });
});

describe('requests that cannot be served', () => {
  const sampling = request(1).sampling;
  it('because memory does not fit one block are refused with the size that is needed', async () => {
    await expect(sampler({ cacheBytes: 1000 }).generate(request(1))).rejects.toThrow(
      '16 tokens of this model take 8192: raise LONGHAUL_KV_CACHE_MIB',
    );
  });
  it.each([
    ['tokens', { tokens: [] }],
    ['tokens', { tokens: [1, 512] }],
    ['tokens', { tokens: [1.5] }],
    ['sampling.temperature', { sampling: { ...sampling, temperature: -1 } }],
    ['sampling.topP', { sampling: { ...sampling, topP: 0 } }],
    ['sampling.topK', { sampling: { ...sampling, topK: 0.5 } }],
    ['sampling.maxTokens', { sampling: { ...sampling, maxTokens: 0 } }],
  ])('are refused by %s: %o', async (field, wishes) => {
    const one = sampler();
    const neighbour = one.generate(request(5));
    await expect(one.generate(request(1, wishes))).rejects.toMatchObject({ name: InvalidRequest.name, field });
    expect((await neighbour).tokens).toHaveLength(12);
  });
});

describe('an abort', () => {
  it('ends a waiting request and a running one, and no other changes', async () => {
    const one = sampler({ maxRows: 2 });
    const controllers = names(4).map(() => new AbortController());
    const long = names(4).map((name) => request(name, { maxTokens: 120 }));
    const running = long.map((wanted, i) => one.generate(wanted, controllers[i]?.signal));
    while (one.stats().active < 2) await new Promise((resolve) => setImmediate(resolve));
    controllers[0]?.abort(new Error('enough'));
    controllers[3]?.abort(new Error('enough'));
    await expect(running[0]).rejects.toThrow('enough');
    await expect(running[3]).rejects.toThrow('enough');
    for (const i of [1, 2]) expect(await running[i]).toEqual(await sampler().generate(long[i] ?? request(0)));
    await one.idle();
    expect(one.stats()).toMatchObject({ active: 0, waiting: 0, blocks: { used: 0 } });
  });
});

describe('a request that arrives when nothing runs', () => {
  it('waits for others, and only until there are enough of them', async () => {
    const patient = sampler({ admissionMs: 600_000, gatherMs: 600_000, quietMs: 600_000 });
    const answers = names(4).map((name) => patient.generate(request(name)));
    await nextTurn();
    expect(patient.stats()).toMatchObject({ active: 0, waiting: 4 });
    answers.push(
      ...names(12)
        .slice(4)
        .map((name) => patient.generate(request(name))),
    );
    expect(await Promise.all(answers)).toHaveLength(12);
  });
});
