/**
 * Hunts an update over a Tinker server that is another update than asked for: another gradient, dropped settings, a key
 * that leaks, a restart that is taken for success. Not asserted: numbers of real servers; contract.test.ts asks one.
 */

import path from 'node:path';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { tinkerBackend } from '../../../endpoints/tinker/backend.ts';
import { bundleModules } from '../../../modules/bundle.ts';
import { importBundle } from '../../../modules/import-bundle.ts';
import type { UpdateSettings } from '../../../protocol/algorithm.ts';
import type { RunConfig } from '../../../protocol/run-config.ts';
import { type TinkerPolicy, tinkerUri } from '../../../protocol/tinker-uri.ts';
import { BackendCalls } from '../../../trainer/backends/backend-calls.ts';
import type { BackendDefinition } from '../../../trainer/backends/definition.ts';
import { backendNamed } from '../../../trainer/backends/registry.ts';
import { updateByBackend } from '../../../trainer/backends/update-by-backend.ts';
import type { Datum } from '../../../trainer/update-request.ts';
import { inScratch, qwen3Dir, someTokens } from '../../trainer/tiny-policy.ts';
import { type ServerManners, TinkerTestServer } from './tinker-server.ts';

const signal = new AbortController().signal;
const tinker = new BackendCalls(tinkerBackend as unknown as BackendDefinition);
let bigram: BackendDefinition;

beforeAll(async () => {
  const bundle = await bundleModules([path.join(import.meta.dirname, '../../../examples/backends/bigram.ts')]);
  await importBundle(bundle);
  const found = backendNamed('bigram', bundle.digest);
  if (found === undefined) throw new Error('the example defines no backend');
  bigram = found;
}, 60_000);
afterEach(() => vi.unstubAllEnvs());

const algorithm: UpdateSettings = {
  learningRate: 1e-2,
  epochs: 1,
  minibatches: 2,
  clipLow: 0.2,
  clipHigh: 0.28,
  maxGradNorm: 0.5,
  weightDecay: 0.01,
  betas: [0.8, 0.9],
  epsilon: 1e-6,
  microBatchTokens: 24,
};

const data: readonly Datum[] = [9, 14, 6, 11].map((length, i) => {
  const tokens = someTokens(length, i + 1);
  return {
    tokens,
    mask: tokens.map((_, t) => Number(t > 2)),
    logprobs: tokens.map((_, t) => (t > 2 ? -6 - 0.1 * t : 0)),
    advantage: [0.7, -0.4, 1.1, -0.9][i] ?? 0,
  };
});

interface Under {
  readonly server: TinkerTestServer;
  readonly uri: string;
  readonly direct: string;
}

const within = (manners: ServerManners, body: (under: Under) => Promise<void>, more: Partial<TinkerPolicy> = {}) =>
  inScratch(async (dir) => {
    const direct = `bigram:${path.join(dir, 'states')}?tokenizer=${qwen3Dir}`;
    await using server = await TinkerTestServer.start(bigram, direct, manners);
    const uri = tinkerUri({ baseUrl: server.baseUrl, model: 'tiny', tokenizer: qwen3Dir, ...more });
    await body({ server, uri, direct });
  });

const update = (calls: BackendCalls, uri: string, name: string, over: Partial<UpdateSettings> = {}) =>
  updateByBackend(
    calls,
    { from: { uri, version: 0 }, toVersion: 1, data, algorithm: { ...algorithm, ...over }, name },
    signal,
  );

async function scored(calls: BackendCalls, uri: string): Promise<number[]> {
  const session = await calls.open({ uri, optimizer: false }, signal);
  const scores = await session.forward(data);
  await session.release();
  return [...scores.values()].flatMap((values) => [...values]);
}

const SKYRL = { manners: { likeSkyRl: true }, more: { reduction: 'sequence-mean' as const } };

describe('an update over a Tinker server', () => {
  test.each([
    ['regular', {}, {}, ['cross_entropy', 'ppo']],
    ['importance_sampling', {}, {}, ['cross_entropy', 'importance_sampling']],
    ['gspo', {}, {}, ['cross_entropy']],
    ['dual_clip', {}, {}, ['cross_entropy']],
    ['regular', SKYRL.manners, SKYRL.more, ['importance_sampling']],
    ['gspo', SKYRL.manners, SKYRL.more, ['importance_sampling']],
    // The first pass is by slopes: its answer shows that the server takes sums.
  ] as const)('has the gradient of loss %s, as without a server (%o)', async (loss, manners, more, sent) => {
    await within(
      manners,
      async ({ server, uri, direct }) => {
        const over = { loss };
        const ours = await update(new BackendCalls(bigram), direct, 'run/direct', over);
        const theirs = await update(tinker, uri, 'run/step-1/abc', over);
        const [wanted, found] = [await scored(new BackendCalls(bigram), ours.policy.uri), await scored(tinker, theirs.policy.uri)];
        for (const [i, value] of wanted.entries()) expect(found[i]).toBeCloseTo(value, 4);
        expect([...new Set(server.losses)]).toEqual(sent);
        expect(theirs.policy.uri).toContain('#tinker://');
        expect(theirs.policy.state).toMatch(/#tinker:\/\/[^/]+\/weights\/run-step-1-abc$/);
        expect(server.modelsLoaded).toBe(0);
      },
      more,
    );
  });

  test('sends every parameter of Adam', () =>
    within({}, async ({ server, uri }) => {
      await update(tinker, uri, 'a');
      const expected = {
        learning_rate: 1e-2,
        beta1: 0.8,
        beta2: 0.9,
        eps: 1e-6,
        weight_decay: 0.01,
        grad_clip_norm: 0.5,
      };
      expect(server.steps.map((step) => step['adam_params'])).toEqual(Array.from({ length: 2 }, () => expected));
    }));

  test('a norm that the server does not tell is left out', () =>
    within({ tellsNoNorm: true }, async ({ uri }) => {
      expect((await update(tinker, uri, 'a')).metrics.gradNorm).toBe(0);
    }));

  test('a server that does not say its reduction needs the setting, by its name', () =>
    within({ likeSkyRl: true }, async ({ uri, server }) => {
      await expect(update(tinker, uri, 'a', { loss: 'gspo' })).rejects.toThrow(/policy\.server\.reduction/);
      expect(server.losses).toEqual([]);
    }));
});

describe('a server that is killed', () => {
  const sampled = (uri: string) =>
    tinker.sample(
      {
        uri,
        tokens: [1, 2, 3],
        sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 5 },
        stopTokenIds: [5],
        noiseKey: 'k',
        rollout: 'r',
      },
      512,
      signal,
    );

  test.each([
    ['today', {}, {}],
    ['as SkyRL', SKYRL.manners, SKYRL.more],
  ] as const)('is sampled again after its restart: %s', async (_name, manners, more) => {
    await within(
      manners,
      async ({ server, uri }) => {
        const { policy } = await update(tinker, uri, 'a');
        const before = await sampled(policy.uri);
        server.forget();
        expect(await sampled(policy.uri)).toEqual(before);
      },
      more,
    );
  });

  test('costs the update that ran, and no more: the next attempt starts from the saved state', () =>
    within({}, async ({ server, uri }) => {
      const first = await update(tinker, uri, 'a');
      const from = first.policy.state ?? '';
      const session = await tinker.open({ uri: from, optimizer: true }, signal);
      server.forget();
      await expect(session.forward(data)).rejects.toThrow(/not loaded/);
      await session.release();
      const [one, other] = [await update(tinker, from, 'b'), await update(tinker, from, 'c')];
      expect(one.policy.uri).not.toBe(other.policy.uri);
      expect(await scored(tinker, one.policy.uri)).toEqual(await scored(tinker, other.policy.uri));
    }));

  test('answers that are late or missing for a while are asked for again', () =>
    within({}, async ({ server, uri }) => {
      server.failures.push(
        { path: 'create_session', status: 503 },
        { path: 'retrieve_future', status: 408 },
        { path: 'retrieve_future', status: 502 },
        { path: 'optim_step', status: 429 },
      );
      await update(tinker, uri, 'a');
      expect(server.failures).toEqual([]);
    }));

  test('what it refuses is not repeated', () =>
    within({}, async ({ server, uri }) => {
      server.failures.push({ path: 'create_model', status: 400, body: 'rank 3 is no power of two' });
      await expect(update(tinker, uri, 'a')).rejects.toThrow(/HTTP 400: rank 3/);
      expect(server.asked.filter((one) => one === 'create_model')).toHaveLength(1);
    }));
});

describe('what it is given', () => {
  test('a key goes only to the address that the operator listed, and into no message', () =>
    within({ key: 'tml-right' }, async ({ server, uri: bare }) => {
      const uri = (apiKeyEnv: string) => bare.replace('?', `?apiKeyEnv=${apiKeyEnv}&`);
      vi.stubEnv('TINKER_ONE', 'tml-right');
      vi.stubEnv('LONGHAUL_KEYS', 'TINKER_ONE@https://elsewhere.example');
      await expect(tinker.describe(uri('TINKER_ONE'), signal)).rejects.toThrow(/LONGHAUL_KEYS .* TINKER_ONE/);
      vi.stubEnv('TINKER_TWO', 'tml-wrong-key');
      vi.stubEnv('LONGHAUL_KEYS', `TINKER_TWO@${server.baseUrl}`);
      const refused = await tinker.describe(uri('TINKER_TWO'), signal).catch((error: Error) => error.message);
      expect(refused).toMatch(/HTTP 401: wrong key \*\*\*/);
      vi.stubEnv('TINKER_THREE', 'tml-right');
      vi.stubEnv('LONGHAUL_KEYS', `TINKER_THREE@${server.baseUrl}/`);
      expect(await tinker.describe(uri('TINKER_THREE'), signal)).toMatchObject({ vocabulary: 515, tokenizer: qwen3Dir });
    }));

  test('a model that the server does not have is named with those that it has', () =>
    within({}, async ({ uri }) => {
      await expect(tinker.describe(uri.replace('model=tiny', 'model=huge'), signal)).rejects.toThrow(/has tiny, and not huge/);
    }));

  test('the context ends where the server says', () =>
    within({ contextTokens: 6 }, async ({ uri }) => {
      const ask = (tokens: readonly number[]) =>
        tinker.sample(
          {
            uri,
            tokens,
            sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 5 },
            stopTokenIds: [],
            noiseKey: 'k',
            rollout: 'r',
          },
          512,
          signal,
        );
      expect(await ask([1, 2, 3])).toMatchObject({ finish: 'context', tokens: { length: 3 } });
      expect(await ask([1, 2, 3, 4, 5, 6])).toMatchObject({ finish: 'context', tokens: { length: 0 } });
    }));

  test('settings that a Tinker server cannot honour are refused by their names', () => {
    const lora = { rank: 8, alpha: 32, targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj'] as const };
    const asked = (policy: object, temperature = 1) =>
      tinkerBackend.refuse?.({ policy, sampling: { temperature }, algorithm: {} } as unknown as RunConfig)?.[0];
    expect(asked({ lora })).toBeUndefined();
    expect(asked({ lora }, 0.7)).toBe('sampling.temperature');
    expect(asked({})).toBe('policy.lora');
    expect(asked({ lora: { ...lora, alpha: 16 } })).toBe('policy.lora.alpha');
    expect(asked({ lora: { ...lora, targetModules: ['q_proj'] } })).toBe('policy.lora.targetModules');
  });
});
