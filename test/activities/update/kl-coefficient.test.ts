/** Hunts a weight of KL that depends on how often an update was attempted, or that ignores the steps before. */
import { expect, it } from 'vitest';
import { klCoefficientOf } from '../../../activities/update/update-request.ts';
import { keys } from '../../../protocol/record-keys.ts';
import { RUN, useWorld } from '../world.ts';

const world = useWorld();
const kl = {
  in: 'loss',
  estimator: 'k3',
  coefficient: 0.1,
  controller: 'adaptive',
  target: 0.1,
  horizon: 100,
} as const;
const at = (step: number, settings: Parameters<typeof klCoefficientOf>[0] = kl) =>
  klCoefficientOf(settings, { run: RUN, step }, world.now.store);
const measured = (step: number, metrics: Record<string, number>) =>
  world.now.store.putOnce(keys.update(RUN, step), { metrics });

it('starts with the configuration, then follows the measured KL, from the records alone', async () => {
  expect(await at(1)).toBe(0.1);
  await measured(1, { 'policy/kl_coefficient': 0.1, 'policy/policy_kl': 0.3, 'policy/num_sequences': 50 });
  expect(await at(2)).toBeCloseTo(0.1 * 1.1, 12);
  expect(await at(2)).toBe(await at(2));
  expect(await at(2, { ...kl, controller: 'fixed' })).toBe(0.1);
});

it('stays the same if a step measured nothing', async () => {
  await measured(4, { 'policy/kl_coefficient': 0.07 });
  expect(await at(5)).toBe(0.07);
});
