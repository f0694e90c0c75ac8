/**
 * Hunts updates that compare log-probabilities at different temperatures. Tokens that the engine sampled at any
 * temperature have ratio 1 before the first step, with every trainer. Not asserted: which temperature learns best.
 */

import { cp, readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defineLoss, LOSSES } from '../../../trainer/algorithms/losses/registry.ts';
import { mergeTransitions, type Transition } from '../../../trainer/data/merge-transitions.ts';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../../trainer/embedded/embedded-engine.ts';
import type { Datum, UpdateRequest } from '../../../trainer/update-request.ts';
import type { GenerateResult } from '../../../trainer/generate-request.ts';
import type { UpdateMetrics, UpdateSettings } from '../../../protocol/algorithm.ts';
import { Learner } from '../../../trainer/learner.ts';
import { initializeWeights } from '../../../trainer/model/initialize.ts';
import { batchOf } from '../../../trainer/model/packed-batch.ts';
import { unpackFlat } from '../../../trainer/model/parameters.ts';
import { type TokenSequence, tokenBatch } from '../../../trainer/model/token-batch.ts';
import type { Weights } from '../../../trainer/model/weights.ts';
import { Updater } from '../../../trainer/update.ts';
import { inScratch, loadLearner, qwen3Dir, smallConfig, someTokens } from '../tiny-policy.ts';

let engine: EmbeddedEngine;
beforeAll(async () => {
  engine = await createEmbeddedEngine();
});
afterAll(() => engine.close());

function ask(tokens: readonly number[], temperature: number, noiseKey: string): Promise<GenerateResult> {
  const sampling = { temperature, topP: 1, topK: 0, maxTokens: 8 };
  return engine.generate({
    policy: { dir: qwen3Dir, version: 0 },
    cacheKey: noiseKey,
    tokens,
    sampling,
    stopTokenIds: [],
    noiseKey,
  });
}

/** Rollouts of two turns in one sequence. The turns use the temperatures one after the other. */
function rolledOut(...temperatures: number[]): Promise<Datum[]> {
  return Promise.all(
    Array.from({ length: 6 }, async (_, i) => {
      const turns: Transition[] = [];
      for (const turn of [0, 1]) {
        const past = turns.flatMap(({ observation, action }) => [...observation, ...action]);
        const observation = [...past, ...someTokens(3 + 4 * i, 2 * i + turn)];
        const temperature = temperatures[(i + turn) % temperatures.length]!;
        const { tokens, logprobs } = await ask(observation, temperature, `${i} ${turn}`);
        turns.push({ observation, action: tokens, logprobs, version: 0, temperature });
      }
      const [merged, ...more] = mergeTransitions(turns);
      expect(more).toEqual([]);
      return { ...merged!, credit: { reward: i % 3, group: `g${i % 2}`, rollout: `r${i}` } };
    }),
  );
}

const algorithm: UpdateSettings = {
  learningRate: 1e-3,
  epochs: 1,
  minibatches: 1,
  maxGradNorm: 1,
  weightDecay: 0,
  betas: [0.9, 0.95],
  epsilon: 1e-8,
  microBatchTokens: 96,
};

const requestIn = (dir: string, data: readonly Datum[], more: Partial<UpdateSettings> = {}): UpdateRequest => ({
  fromDir: qwen3Dir,
  toDir: path.join(dir, 'v1'),
  toVersion: 1,
  data,
  algorithm: { ...algorithm, ...more },
});

/** Trains by the engine, whole or in shards. */
async function updated(request: UpdateRequest, shards?: number): Promise<Omit<UpdateMetrics, 'sha256'>> {
  if (shards === undefined) return engine.update(request);
  const dir = path.join(path.dirname(request.toDir), 'update');
  const { plan, rounds } = await engine.planUpdate({ ...request, dir, shards });
  expect(rounds).toEqual([shards]);
  for (let shard = 0; shard < shards; shard++) await engine.forwardBackward({ dir, plan, round: 0, shard });
  await engine.optimStep({ dir, plan, round: 0 });
  return (JSON.parse(await readFile(path.join(request.toDir, 'longhaul.json'), 'utf8')) as { metrics: UpdateMetrics })
    .metrics;
}

function expectSamePolicy({ logprobDrift, kl, clipFraction, metrics = {} }: Omit<UpdateMetrics, 'sha256'>): void {
  expect(logprobDrift.maxAbs).toBeLessThan(1e-4);
  for (const name of ['mean', 'max', 'min']) expect(Math.abs(metrics[`policy/ratio_${name}`]! - 1)).toBeLessThan(1e-4);
  expect(Math.abs(kl)).toBeLessThan(1e-8);
  expect(clipFraction).toBe(0);
}

const MIXED = [0.6, 1.7, 0, 1];

describe.each([
  ['0.6', [0.6]],
  ['1.7', [1.7]],
  ['0', [0]],
  ['several temperatures', MIXED],
])('an update of what was sampled at %s finds the policy that sampled', (_name, temperatures) => {
  test.each<[string, Partial<UpdateRequest>, Partial<UpdateSettings>, number?]>([
    ['whole', {}, {}],
    ['in a packed row', {}, { packing: true }],
    [
      'with layers computed again and a bonus for entropy',
      {},
      { gradientCheckpointing: true, entropyCoefficient: 0.01 },
    ],
    ['by an adapter', { lora: { rank: 4, alpha: 8, targetModules: ['q_proj', 'v_proj', 'down_proj'], seed: 3 } }, {}],
    ['in two shards', {}, {}, 2],
    ['in two shards of packed rows', {}, { packing: true }, 2],
  ])('%s', (_, request, settings, shards) =>
    inScratch(async (dir) => {
      const data = await rolledOut(...temperatures);
      expectSamePolicy(await updated({ ...requestIn(dir, data, settings), ...request }, shards));
    }),
  );

  test('by its reference pass, in the same directory and in another one', () =>
    inScratch(async (dir) => {
      const data = await rolledOut(...temperatures);
      const other = path.join(dir, 'reference');
      await cp(qwen3Dir, other, { recursive: true });
      for (const referenceDir of [qwen3Dir, other]) {
        const request = requestIn(path.join(dir, path.basename(referenceDir)), data, {
          kl: { in: 'loss', estimator: 'k3', coefficient: 0.1 },
        });
        const metrics = await engine.update({ ...request, referenceDir });
        expectSamePolicy(metrics);
        expect(Math.abs(metrics.metrics!['policy/policy_kl']!)).toBeLessThan(1e-8);
      }
    }));

  test('by the pass of an off-policy correction', () =>
    inScratch(async (dir) => {
      const metrics = await engine.update(
        requestIn(dir, await rolledOut(...temperatures), { offPolicyCorrection: { tisRatioType: 'token' } }),
      );
      expectSamePolicy(metrics);
      const ratios = Object.entries(metrics.metrics!).filter(([name]) => /is_ratio_(mean|max|min)$/.test(name));
      expect(ratios.length).toBeGreaterThan(0);
      for (const [name, value] of ratios) expect(Math.abs(value - 1), name).toBeLessThan(1e-4);
    }));
});

test('without the temperatures the same data look like another policy’s', () =>
  inScratch(async (dir) => {
    const data = (await rolledOut(0.6)).map(({ tokens, mask, logprobs, credit }) => ({
      tokens,
      mask,
      logprobs,
      credit: credit!,
    }));
    expect((await engine.update(requestIn(dir, data))).logprobDrift.maxAbs).toBeGreaterThan(0.1);
  }));

test('a user’s own loss receives the log-probabilities at the temperature', () =>
  inScratch(async (dir) => {
    let most = Number.NaN;
    defineLoss('drift-of-temperature', {
      ...LOSSES.regular,
      terms(tokens, settings) {
        most = Math.max(...Array.from(tokens.logprobs, (logprob, i) => Math.abs(logprob - tokens.rollout![i]!)));
        return LOSSES.regular.terms(tokens, settings);
      },
    });
    await new Updater().run(
      requestIn(dir, await rolledOut(...MIXED), { loss: 'drift-of-temperature', microBatchTokens: 4096 }),
    );
    expect(most).toBeLessThan(1e-4);
  }));

test('entropies are of the same distributions as log-probabilities', async () => {
  const learner = await loadLearner(qwen3Dir);
  const { vocabSize } = learner.policy.config;
  const entropyAt: number[] = [];
  for (const temperature of [0.6, 1, 1.7]) {
    const ends = Array.from({ length: vocabSize }, (_, last) => ({
      tokens: [7, 304, 452, last],
      mask: [0, 0, 0, 1],
      temperatures: [1, 1, 1, temperature],
    }));
    const { logprobs, entropies } = learner.forward(tokenBatch(ends), true);
    const entropy = -logprobs.reduce((sum, logprob) => sum + Math.exp(logprob) * logprob, 0);
    for (const got of entropies!) expect(got).toBeCloseTo(entropy, 4);
    entropyAt.push(entropy);
  }
  learner.dispose();
  const [cold, plain, hot] = entropyAt;
  expect([cold! < plain!, plain! < hot!]).toEqual([true, true]);
});

test('at temperature 1, and if greedy, nothing is divided: the weights have the same bits as without temperatures', () =>
  inScratch(async (dir) => {
    const data = await rolledOut(1);
    expect(data.every(({ temperatures }) => temperatures === undefined)).toBe(true);
    expect(
      tokenBatch(data.map((datum) => ({ ...datum, temperatures: datum.tokens.map((_, i) => i % 2) }))).temperatures,
    ).toBeUndefined();
    const shas = [];
    for (const [i, heat] of [undefined, 1, 0].entries()) {
      const hot = data.map((datum) =>
        heat === undefined ? datum : { ...datum, temperatures: datum.tokens.map(() => heat) },
      );
      shas.push((await engine.update(requestIn(path.join(dir, `${i}`), hot))).sha256);
    }
    expect(new Set(shas).size).toBe(1);
  }));

test.each([-1, Number.NaN, Infinity])('%d is refused as a temperature, by name', (temperature) => {
  expect(() => tokenBatch([{ tokens: [1, 2], mask: [1, 1], temperatures: [1, temperature] }])).toThrow(
    /temperatures\[1\]: .* give each token/,
  );
});

// Wide enough that the distributions are far from uniform.
const weights: Weights = new Map(
  [...initializeWeights(smallConfig, 'heat')].map(([name, { shape, data }]) => [
    name,
    { shape, data: data.map((x) => 2 * x) },
  ]),
);

const sequences: TokenSequence[] = [[0.6], [1.7], [0.6, 1, 1.7]].map((heat, row) => {
  const tokens = someTokens(17 + 9 * row, row + 1);
  return { tokens, mask: tokens.map((_, i) => i % 2), temperatures: tokens.map((_, i) => heat[i % heat.length]!) };
});

interface Learnt {
  readonly value: number;
  readonly logprobs: readonly number[];
  readonly entropies: readonly number[];
  readonly gradient: Weights;
}

/** Σ over all tokens of log p · cos + H · sin, computed by passes over these batches, and its gradient. */
function learnt(at: Weights, batches: ReadonlyArray<readonly TokenSequence[]>, packing = false): Learnt {
  const learner = new Learner(smallConfig, at);
  const [logprobs, entropies]: [number[], number[]] = [[], []];
  let value = 0;
  for (const batch of batches) {
    learner.forwardBackward(batchOf(batch, { packing }), 'trained', (seen) => {
      const from = logprobs.length;
      const slopes = {
        logprobs: seen.logprobs.map((_, i) => Math.cos(from + i)),
        entropies: seen.logprobs.map((_, i) => Math.sin(from + i)),
      };
      for (const [i, logprob] of seen.logprobs.entries())
        value += logprob * slopes.logprobs[i]! + seen.entropies![i]! * slopes.entropies[i]!;
      logprobs.push(...seen.logprobs);
      entropies.push(...seen.entropies!);
      return slopes;
    });
  }
  const flat = learner.gradients.flatten(learner.policy);
  const gradient = unpackFlat(learner.policy.layout, flat.dataSync() as Float32Array);
  flat.dispose();
  learner.dispose();
  return { value, logprobs, entropies, gradient };
}

const numbersOf = (some: Weights): number[] => [...some.values()].flatMap(({ data }) => [...data]);
const lengthOf = (numbers: readonly number[]): number => Math.hypot(...numbers);

test('the gradient equals finite differences, all tensors at once', () => {
  const { gradient } = learnt(weights, [sequences]);
  const norm = lengthOf(numbersOf(gradient));
  const moved = (by: number): Weights =>
    new Map(
      [...weights].map(([name, { shape, data }]) => [
        name,
        { shape, data: data.map((x, i) => x + (by * gradient.get(name)!.data[i]!) / norm) },
      ]),
    );
  const h = 0.003;
  const slope = (learnt(moved(h), [sequences]).value - learnt(moved(-h), [sequences]).value) / (2 * h);
  expect(norm).toBeGreaterThan(0.01);
  expect(Math.abs(slope / norm - 1)).toBeLessThan(0.005);
});

test.each([false, true])('a batch of mixed temperatures gives the same as its rows alone (packed: %s)', (packing) => {
  const [together, apart] = [
    learnt(weights, [sequences], packing),
    learnt(
      weights,
      sequences.map((one) => [one]),
    ),
  ];
  for (const what of ['logprobs', 'entropies'] as const) {
    expect(together[what].length).toBe(apart[what].length);
    for (const [i, value] of together[what].entries()) expect(value).toBeCloseTo(apart[what][i]!, 4);
  }
  const [a, b] = [together, apart].map(({ gradient }) => numbersOf(gradient)) as [number[], number[]];
  expect(lengthOf(a.map((x, i) => x - b[i]!)) / lengthOf(b)).toBeLessThan(1e-4);
});

test('rows at temperature 1 keep their bits beside others', () => {
  const plain = sequences.map(({ tokens, mask }) => ({ tokens, mask }));
  const learner = new Learner(smallConfig, weights);
  const cold = learner.forward(tokenBatch(plain), true);
  const mixed = learner.forward(tokenBatch([plain[0]!, sequences[1]!, plain[2]!]), true);
  learner.dispose();
  const { rowOf } = tokenBatch(plain);
  for (const [i, row] of rowOf.entries()) {
    expect(mixed.logprobs[i] === cold.logprobs[i]).toBe(row !== 1);
    expect(mixed.entropies![i] === cold.entropies![i]).toBe(row !== 1);
  }
});
