/** The entropy's gradient by the weights against finite differences along the gradient, all tensors at once. */

import { expect, test } from 'vitest';
import { Learner } from '../../../trainer/learner.ts';
import { initializeWeights } from '../../../trainer/model/initialize.ts';
import { unpackFlat } from '../../../trainer/model/parameters.ts';
import { tokenBatch } from '../../../trainer/model/token-batch.ts';
import type { Weights } from '../../../trainer/model/weights.ts';
import { smallConfig, someTokens } from '../tiny-policy.ts';

const tokens = someTokens(40, 3);
const batch = tokenBatch([{ tokens, mask: tokens.map((_, i) => i % 2) }]);
const factors = Float32Array.from(batch.labels, (_, i) => Math.cos(i) / batch.labels.length);

function entropyOf(weights: Weights): number {
  const learner = new Learner(smallConfig, weights);
  const { entropies } = learner.forward(batch, true);
  learner.dispose();
  return entropies!.reduce((sum, x, i) => sum + x * factors[i]!, 0);
}

test('d Σ w·H / d weights', () => {
  // Wide enough that the distributions are far from uniform.
  const weights: Weights = new Map(
    [...initializeWeights(smallConfig, 'entropy')].map(([name, { shape, data }]) => [
      name,
      { shape, data: data.map((x) => 2 * x) },
    ]),
  );
  const learner = new Learner(smallConfig, weights);
  learner.forwardBackward(batch, 'trained', ({ logprobs }) => ({
    logprobs: new Float32Array(logprobs.length),
    entropies: factors,
  }));
  const gradients = unpackFlat(
    learner.policy.layout,
    learner.gradients.flatten(learner.policy).dataSync() as Float32Array,
  );
  learner.dispose();
  const norm = Math.sqrt(
    [...gradients.values()].reduce((sum, { data }) => sum + data.reduce((s, x) => s + x * x, 0), 0),
  );
  const moved = (by: number): Weights =>
    new Map(
      [...weights].map(([name, { shape, data }]) => [
        name,
        { shape, data: data.map((x, i) => x + (by * gradients.get(name)!.data[i]!) / norm) },
      ]),
    );
  const h = 0.003;
  expect(norm).toBeGreaterThan(0.01);
  expect(Math.abs((entropyOf(moved(h)) - entropyOf(moved(-h))) / (2 * h) / norm - 1)).toBeLessThan(0.01);
});
