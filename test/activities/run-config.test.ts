/** Hunts a run that begins with a policy that nothing can train, or is refused without its reason. */
import { expect, it } from 'vitest';
import { resolveRunConfig } from '../../activities/run-config.ts';

const settings = { task: { name: 'swe-mini' } };

it.each([
  ['an endpoint', { endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm' } }, 'policy.endpoint'],
  ['an endpoint beside a base', { base: '/p', endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm' } }, 'policy.endpoint'],
  ['an address as the base', { base: 'https://host/v1' }, 'policy.base'],
])('training of %s is refused with the reason and the remedy', (_, policy, field) => {
  const refused = () => resolveRunConfig({ ...settings, policy }, '/');
  expect(refused).toThrow(expect.objectContaining({ name: 'UserInputError', field, remedy: expect.stringMatching(/cannot be trained.*no updates.*give policy\.base/) as string }));
});

it('another setting that there is not is refused by its name', () => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p', model: 'm' } }, '/')).toThrow(/^policy.model: /);
});

it.each([
  [{ mode: 'sync', maxStalenessSteps: 2 }, 'training.maxStalenessSteps', /no effect in mode sync.*choose async/],
  [{ mode: 'one-step-off', maxStalenessSteps: 1 }, 'training.maxStalenessSteps', /no effect in mode one-step-off/],
  [{ mode: 'sync', rolloutVersion: 'newest' }, 'training.rolloutVersion', /choose one-step-off or async/],
  [{ mode: 'async', maxStalenessSteps: 2, maskStalenessSteps: 2 }, 'training.maskStalenessSteps', /more than 2 steps late/],
  [{ mode: 'async', maxStalenessSteps: -1 }, 'training.maxStalenessSteps', /./],
  [{ mode: 'sometimes' }, 'training.mode', /./],
])('training %j is refused by field, with the remedy', (training, field, remedy) => {
  const refused = () => resolveRunConfig({ ...settings, policy: { base: '/p' }, training }, '/');
  expect(refused).toThrow(expect.objectContaining({ field, remedy: expect.stringMatching(remedy) as string }));
});

it('what overlaps with updates is corrected, unless it is said otherwise; what does not is left as it was', () => {
  const resolved = (given: object) => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...given }, '/');
  expect(resolved({}).training).toEqual({ mode: 'sync' });
  expect(resolved({}).algorithm.offPolicyCorrection).toBeUndefined();
  const token = { tisRatioType: 'token', tokenTisRatioClipHigh: 2, sequenceTisRatioClipHigh: 5 };
  const overlapping = resolved({ training: { mode: 'async' } });
  expect(overlapping.training).toEqual({ mode: 'async', maxStalenessSteps: 4, rolloutVersion: 'newest' });
  expect(overlapping.algorithm.offPolicyCorrection).toEqual(token);
  expect(resolved({ training: { mode: 'one-step-off' } }).training).toEqual({ mode: 'one-step-off', rolloutVersion: 'begin' });
  const none = { training: { mode: 'async' }, algorithm: { offPolicyCorrection: { tisRatioType: 'none' } } };
  expect(resolved(none).algorithm.offPolicyCorrection).toEqual({ ...token, tisRatioType: 'none' });
});
