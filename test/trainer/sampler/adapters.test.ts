/**
 * Hunts an answer of an adapter that other requests change: blocks of another adapter that are read, an adapter that is
 * dropped while a sequence uses it, passes that are not shared, files that are used although they are not what was saved.
 */

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import type { GenerateRequest, GenerateResult } from '../../../trainer/generate-request.ts';
import { CheckpointTorn } from '../../../trainer/checkpoints/verified-checkpoint.ts';
import type { ModelConfig } from '../../../trainer/model/config.ts';
import { writeSafetensors } from '../../../trainer/model/safetensors.ts';
import { asWeights, saveWeights, weightsDigest } from '../../../trainer/model/weights.ts';
import { graphDecoderKind } from '../../../trainer/sampler/pass/graph/graph-decoder.ts';
import { nativeDecoderKind } from '../../../trainer/sampler/pass/native/native-decoder.ts';
import { loadAdapter } from '../../../trainer/sampler/policy-loader.ts';
import { Sampler, type SamplerOptions } from '../../../trainer/sampler/sampler.ts';
import { inScratch } from '../tiny-policy.ts';
import { randomAdapter } from './random-adapter.ts';
import { randomIds, randomWeights, smallShape } from './random-policy.ts';

const config: ModelConfig = { ...smallShape, layers: 2, hiddenSize: 64, intermediateSize: 128, tiedEmbeddings: false };
const ranks: Readonly<Record<string, number>> = { a1: 1, b4: 4, c8: 8, d32: 32, e4: 4, f8: 8 };
const names = Object.keys(ranks);
const adapterOf = (dir: string) => {
  const rank = ranks[dir];
  if (rank === undefined) throw new RangeError(`no adapter ${dir}`);
  return randomAdapter(config, { seed: names.indexOf(dir), rank });
};

const open: Sampler[] = [];
afterEach(async () => {
  for (const made of open.splice(0)) {
    await made.idle();
    made.dispose();
  }
});

function sampler(options: Partial<SamplerOptions> = {}): Sampler {
  const made = new Sampler({
    maxContext: 256,
    kind: nativeDecoderKind(),
    load: ({ dir }) =>
      Promise.resolve({ config, weights: randomWeights(config, dir === 'base' ? 1 : 2), vocabulary: config.vocabSize }),
    loadAdapter: async ({ dir }) => adapterOf(dir),
    ...options,
  });
  open.push(made);
  return made;
}

const prompt = randomIds(3, 40, config.vocabSize);
function request(
  adapter: string | undefined,
  wishes: Partial<GenerateRequest> & { maxTokens?: number; base?: string } = {},
): GenerateRequest {
  const { maxTokens = 20, base = 'base', ...rest } = wishes;
  return {
    policy: { dir: base, version: 1, ...(adapter === undefined ? {} : { adapter: { dir: adapter } }) },
    cacheKey: 'one',
    tokens: prompt,
    sampling: { temperature: 1, topP: 1, topK: 0, maxTokens },
    stopTokenIds: [],
    noiseKey: 'noise',
    ...rest,
  };
}

async function alone(wanted: GenerateRequest): Promise<GenerateResult> {
  const made = sampler();
  const result = await made.generate(wanted);
  await made.idle();
  return result;
}

/** The base and every adapter. */
const all = [undefined, ...names];

describe('adapters of one base', () => {
  it('and the base share passes and one copy of the base, and sample what each samples alone', async () => {
    const made = sampler();
    const wanted = await Promise.all(all.map((one) => alone(request(one))));
    expect(new Set(wanted.map(({ tokens }) => tokens.join())).size).toBe(all.length);
    expect(await Promise.all(all.map((one) => made.generate(request(one))))).toEqual(wanted);
    expect(made.stats()).toMatchObject({ policiesLoaded: 1, adaptersLoaded: names.length, mostRows: all.length });
    expect(made.stats().decodePasses).toBeLessThan(30);
  });

  it('give the same prompt log-probabilities and likeliest tokens in company', async () => {
    const scored = { promptLogprobs: true, topLogprobs: 3, maxTokens: 1 };
    const wanted = await Promise.all(all.map((one) => alone(request(one, scored))));
    const made = sampler();
    expect(await Promise.all(all.map((one) => made.generate(request(one, scored))))).toEqual(wanted);
    expect(wanted[0]?.promptLogprobs).toHaveLength(prompt.length);
    expect(new Set(wanted.map(({ promptLogprobs }) => promptLogprobs?.[5]?.logprob)).size).toBe(all.length);
  });

  it('never read blocks of each other, of the base, or of another digest', async () => {
    const made = sampler();
    for (const one of [...all, undefined]) await made.generate(request(one));
    const digest = (digest: string) => ({ policy: { dir: 'base', version: 1, adapter: { dir: 'a1', digest } } });
    await made.generate(request('a1', digest('x')));
    await made.generate(request('a1', digest('y')));
    // Only the base sampled twice.
    expect(made.stats().cachedTokens).toBe(prompt.length - 1);
    await made.generate(request('a1', digest('y')));
    expect(made.stats().cachedTokens).toBe(2 * (prompt.length - 1));
  });

  it('of two bases run beside each other', async () => {
    const of = (base: string) => names.map((one) => request(one, { base, maxTokens: 8 }));
    const requests = [...of('base'), ...of('other'), ...of('third')];
    const wanted = await Promise.all(requests.map((one) => alone(one)));
    const made = sampler();
    expect(await Promise.all(requests.map((one) => made.generate(one)))).toEqual(wanted);
    expect(made.stats().policiesLoaded).toBe(3);
  });

  it('fail alone, if they cannot be loaded', async () => {
    const made = sampler();
    const wanted = await alone(request('b4'));
    const [bad, good] = await Promise.allSettled([made.generate(request('missing')), made.generate(request('b4'))]);
    expect(bad).toMatchObject({ status: 'rejected', reason: { message: 'no adapter missing' } });
    expect(good).toMatchObject({ status: 'fulfilled', value: wanted });
  });
});

describe('the memory for adapters', () => {
  /** Of the largest here. */
  const adapterBytes = nativeDecoderKind().adapter?.(config, 256, adapterOf('d32')).bytes ?? 0;

  it('drops those that were used longest ago, and loads them again', async () => {
    const made = sampler({ adapterBytes: 1.2 * adapterBytes });
    const loads: number[] = [];
    const thrice = Array.from({ length: 3 }, (_, round) =>
      names.map((one) => request(one, { noiseKey: `${round}`, maxTokens: 2 })),
    );
    for (const one of thrice.flat()) {
      await made.generate(one);
      loads.push(made.stats().adaptersLoaded);
    }
    expect(loads.at(-1)).toBeGreaterThan(names.length);
    expect(made.stats().policiesLoaded).toBe(1);
    await made.generate(request(names.at(-1)));
    expect(made.stats().adaptersLoaded).toBe(loads.at(-1));
  });

  it.each([1, adapterBytes])('of %i bytes lets any number sample at once: others wait', async (bytes) => {
    const wanted = await Promise.all(names.map((one) => alone(request(one))));
    const made = sampler({ adapterBytes: bytes });
    const requests = [...names, ...names].map((one) => made.generate(request(one)));
    expect(await Promise.all(requests)).toEqual([...wanted, ...wanted]);
    expect(made.stats().adaptersLoaded).toBeGreaterThanOrEqual(names.length);
  });

  it('holds hundreds', async () => {
    const made = sampler({ loadAdapter: async ({ dir }) => randomAdapter(config, { seed: Number(dir), rank: 2 }) });
    const results = await Promise.all(
      Array.from({ length: 200 }, (_, i) => made.generate(request(`${i}`, { maxTokens: 2 }))),
    );
    expect(results).toHaveLength(200);
    expect(made.stats()).toMatchObject({ adaptersLoaded: 200, policiesLoaded: 1 });
  });
});

it('the graph merges an adapter into a copy of the base', async () => {
  const greedy = { sampling: { temperature: 0, topP: 1, topK: 0, maxTokens: 5 } };
  const wanted = await alone(request('b4', greedy));
  const made = sampler({ kind: graphDecoderKind() });
  const found = await made.generate(request('b4', greedy));
  expect(found.tokens).toEqual(wanted.tokens);
  for (const [i, logprob] of found.logprobs.entries()) expect(logprob).toBeCloseTo(wanted.logprobs[i] ?? Number.NaN, 3);
  expect(made.stats()).toMatchObject({ policiesLoaded: 1, adaptersLoaded: 0 });
});

describe('the files of an adapter', () => {
  async function saved(dir: string, more: Readonly<Record<string, unknown>> = {}) {
    const { json, tensors } = adapterOf('b4');
    await mkdir(dir, { recursive: true });
    await writeFile(path.join(dir, 'adapter_config.json'), JSON.stringify({ ...json, ...more }));
    await writeSafetensors(path.join(dir, 'adapter_model.safetensors'), tensors);
    return weightsDigest(tensors);
  }

  it('are read whatever base they name, and must have their digest', () =>
    inScratch(async (dir) => {
      const digest = await saved(path.join(dir, 'one'), { base_model_name_or_path: 'somewhere/else' });
      const made = sampler({ loadAdapter });
      const policy = (wanted: string) => ({
        dir: 'base',
        version: 1,
        adapter: { dir: path.join(dir, 'one'), digest: wanted },
      });
      expect(await made.generate(request(undefined, { policy: policy(digest) }))).toEqual(await alone(request('b4')));
      await expect(made.generate(request(undefined, { policy: policy('0'.repeat(64)) }))).rejects.toThrow(
        CheckpointTorn,
      );
    }));

  it('are refused by field and name', () =>
    inScratch(async (dir) => {
      const made = sampler({ loadAdapter });
      const at = (adapter: string) => made.generate(request(path.join(dir, adapter)));
      await expect(at('missing')).rejects.toThrow(UserInputError);
      await saved(path.join(dir, 'dora'), { use_dora: true });
      await expect(at('dora')).rejects.toThrow('adapter_config.json: use_dora = true is not supported');
      await saved(path.join(dir, 'rank'), { r: 5 });
      await expect(at('rank')).rejects.toThrow(/lora_A\.weight has shape \[4,64\], the configuration says \[5,64\]/);
      await saved(path.join(dir, 'few'), { target_modules: ['q_proj'] });
      await expect(at('few')).rejects.toThrow('is not a tensor of the configured model');
    }));

  it("may have a copy of the base's head, which must be the base's", () =>
    inScratch(async (dir) => {
      const base = path.join(dir, 'base');
      await mkdir(base);
      await saveWeights(base, randomWeights(config, 1));
      await saved(path.join(dir, 'one'));
      const head = randomWeights(config, 1).get('lm_head.weight')!;
      const write = (data: Float32Array) =>
        writeSafetensors(
          path.join(dir, 'one', 'adapter_model.safetensors'),
          new Map([
            ...adapterOf('b4').tensors,
            ['base_model.model.lm_head.base_layer.weight', { shape: head.shape, data }],
          ]),
        );
      await write(head.data);
      expect(asWeights((await loadAdapter({ dir: path.join(dir, 'one') }, base)).tensors)).toEqual(
        asWeights(adapterOf('b4').tensors),
      );
      await write(head.data.with(0, 7));
      await expect(loadAdapter({ dir: path.join(dir, 'one') }, base)).rejects.toThrow(
        "differs from the base's lm_head.weight",
      );
    }));
});
