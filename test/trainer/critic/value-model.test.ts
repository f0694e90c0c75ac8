/**
 * The critic's gradient against finite differences, tensor by tensor, and its values against an explicit computation.
 */

import { describe, expect, test } from 'vitest';
import { criticLoss } from '../../../trainer/algorithms/critic-loss.ts';
import { ValueModel } from '../../../trainer/critic/value-model.ts';
import { Learner } from '../../../trainer/learner.ts';
import { newAdapter } from '../../../trainer/lora/new-adapter.ts';
import { decode } from '../../../trainer/model/decoder.ts';
import { type ModelConfig, valueConfig } from '../../../trainer/model/config.ts';
import { initializeWeights } from '../../../trainer/model/initialize.ts';
import { unpackFlat } from '../../../trainer/model/parameters.ts';
import { RotaryTables } from '../../../trainer/model/layers/rotary.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import type { Weights } from '../../../trainer/model/weights.ts';
import { tf } from '../../../trainer/tensorflow.ts';
import { smallConfig, someTokens } from '../tiny-policy.ts';

const lengths = [40, 23, 9];
const batch = tokenBatch(
  lengths.map((length, seed) => ({
    tokens: someTokens(length, seed + 1),
    mask: someTokens(length, seed + 9, 3).map((x) => (x === 0 ? 1 : 0)),
  })),
);
const counts = lengths.map((_, row) => batch.rowOf.filter((r) => r === row).length);
const starts = counts.reduce<number[]>((all, count) => [...all, all.at(-1)! + count], [0]);
const mask = Array.from(batch.labels, () => 1);
const returns = Array.from(batch.labels, (_, i) => Math.cos(i));

/** Some tokens are outside of the clip range on either side, and none is at its edge. */
const lossAt = (values: Float32Array, old: Float32Array) => criticLoss({ starts, mask, values, old, returns }, 0.3);

function lossOf(config: ModelConfig, weights: Weights, old: Float32Array): number {
  const model = new ValueModel(config, weights);
  const values = model.values(batch);
  model.dispose();
  return lossAt(values, old).loss;
}

function moved(weights: Weights, name: string, direction: Float32Array, by: number): Weights {
  const { shape, data } = weights.get(name)!;
  return new Map([...weights, [name, { shape, data: data.map((x, i) => x + by * direction[i]!) }]]);
}

const weightsOf = (config: ModelConfig, seed: string): Weights => initializeWeights(valueConfig(config), seed);

describe('a critic', () => {
  test.each([
    ['tied policy', smallConfig],
    ['biases, an untied policy', { ...smallConfig, family: 'qwen2' as const, tiedEmbeddings: false }],
  ])('gradient of the clipped loss by head and trunk: %s', (_, config) => {
    const weights = weightsOf(config, 'v');
    const model = new ValueModel(config, weights);
    const start = model.values(batch);
    // The old values differ from the current ones, so that some tokens are clipped.
    const old = start.map((x, i) => x + (i % 4 === 0 ? 0.5 : 0.1) * Math.sin(i + 0.4));
    expect(lossAt(start, old).clipFraction).toBeGreaterThan(0);
    model.forwardBackward(batch, (values) => Float32Array.from(lossAt(values, old).gradient));
    const flat = model.gradients.flatten(model.decoder).dataSync() as Float32Array;
    const gradients = unpackFlat(model.decoder.layout, flat);
    model.dispose();
    expect([...gradients.keys()]).toContain('value_head.weight');
    expect([...gradients.keys()]).not.toContain('lm_head.weight');
    for (const [name, { data }] of gradients) {
      const norm = Math.sqrt(data.reduce((sum, x) => sum + x * x, 0));
      expect(norm, name).toBeGreaterThan(0);
      const direction = data.map((x) => x / norm);
      const h = 1e-3;
      const slope =
        (lossOf(config, moved(weights, name, direction, h), old) -
          lossOf(config, moved(weights, name, direction, -h), old)) /
        (2 * h);
      expect(Math.abs(slope / norm - 1), name).toBeLessThan(0.02);
    }
  });

  test('gradient of an adapter and its head only', () => {
    const fresh = newAdapter(
      valueConfig(smallConfig),
      { rank: 2, alpha: 4, targetModules: ['q_proj', 'up_proj', 'down_proj'] },
      '/base',
      1,
    );
    const head = {
      shape: [1, smallConfig.hiddenSize],
      data: Float32Array.from({ length: smallConfig.hiddenSize }, (_, i) => 0.3 * Math.sin(i + 1)),
    };
    const tensors: Weights = new Map(
      [...fresh.tensors, ['base_model.model.value_head.weight', head] as const].map(([name, { shape, data }], n) => [
        name,
        { shape: [...shape], data: data.map((x, i) => x + 0.1 * Math.sin(5 * n + i)) },
      ]),
    );
    const json = { ...fresh.json, modules_to_save: ['value_head'] };
    const weights = weightsOf(smallConfig, 'a');
    const adapted = (adapter: Weights, base = weights): ValueModel =>
      new ValueModel(smallConfig, base, { json, tensors: adapter });
    const model = adapted(tensors);
    const start = model.values(batch);
    const old = start.map((x, i) => x + (i % 4 === 0 ? 0.5 : 0.1) * Math.sin(i + 0.4));
    model.forwardBackward(batch, (values) => Float32Array.from(lossAt(values, old).gradient));
    const gradients = unpackFlat(
      model.decoder.trainable.layout,
      model.gradients.flatten(model.decoder).dataSync() as Float32Array,
    );
    model.dispose();
    expect([...gradients.keys()].sort()).toEqual([...tensors.keys()].sort());
    const lossWith = (adapter: Weights): number => {
      const one = adapted(adapter);
      const values = one.values(batch);
      one.dispose();
      return lossAt(values, old).loss;
    };
    for (const [name, { data }] of gradients) {
      const norm = Math.sqrt(data.reduce((sum, x) => sum + x * x, 0));
      expect(norm, name).toBeGreaterThan(0);
      const [direction, h] = [data.map((x) => x / norm), 1e-3];
      const slope =
        (lossWith(moved(tensors, name, direction, h)) - lossWith(moved(tensors, name, direction, -h))) / (2 * h);
      expect(Math.abs(slope / norm - 1), name).toBeLessThan(0.02);
    }
    // The base's own head is not used.
    const other = adapted(
      tensors,
      new Map([
        ...weights,
        ['value_head.weight', { shape: [1, smallConfig.hiddenSize], data: new Float32Array(smallConfig.hiddenSize) }],
      ]),
    );
    expect(other.values(batch)).toEqual(start);
    other.dispose();
  });

  test('values are the head times the normalised hidden states before the tokens that count, in float64', () => {
    const weights = weightsOf(smallConfig, 'w');
    const model = new ValueModel(smallConfig, weights);
    const values = model.values(batch);
    const tables = new RotaryTables(model.decoder.config, 1024);
    const hidden = decode(model.decoder, batch, tables, 'none').hidden.dataSync() as Float32Array;
    const [norm, head] = ['model.norm.weight', 'value_head.weight'].map((name) => weights.get(name)!.data);
    const d = smallConfig.hiddenSize;
    for (const [i, value] of values.entries()) {
      let sum = 0;
      for (let j = 0; j < d; j++) sum += hidden[i * d + j]! * norm![j]! * head![j]!;
      expect(value).toBeCloseTo(sum, 5);
    }
    model.dispose();
  });

  test('passes leave no tensor behind', () => {
    const model = new ValueModel(smallConfig, weightsOf(smallConfig, 'm'));
    const pass = (): number => {
      model.values(batch);
      model.forwardBackward(batch, (values) => values);
      model.gradients.flatten(model.decoder).dispose();
      return tf.memory().numTensors;
    };
    const first = pass();
    expect([pass(), pass()]).toEqual([first, first]);
    const refuse = (): never => {
      throw new Error('refused');
    };
    expect(() => model.forwardBackward(batch, refuse)).toThrow('refused');
    expect(tf.memory().numTensors).toBe(first);
    model.dispose();
  });

  test("the trunk is the policy's decoder: the same hidden states from the same weights", () => {
    const policy = initializeWeights(smallConfig, 'p');
    const critic: Weights = new Map([
      ...policy,
      [
        'value_head.weight',
        { shape: [1, smallConfig.hiddenSize], data: new Float32Array(smallConfig.hiddenSize).fill(1) },
      ],
    ]);
    const [learner, model] = [new Learner(smallConfig, policy), new ValueModel(smallConfig, critic)];
    const tables = new RotaryTables(smallConfig, 1024);
    const [a, b] = [learner.policy, model.decoder].map(
      (one) => decode(one, batch, tables, 'none').hidden.dataSync() as Float32Array,
    );
    expect(b).toEqual(a);
    learner.dispose();
    model.dispose();
  });
});
