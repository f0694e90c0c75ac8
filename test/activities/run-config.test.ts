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

it('an adapter has defaults, and its modules are named', () => {
  const { policy } = resolveRunConfig({ ...settings, policy: { base: 'p', lora: { rank: 16 } } }, '/here');
  expect(policy).toEqual({
    base: '/here/p',
    lora: { rank: 16, alpha: 16, targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] },
  });
  expect(resolveRunConfig({ ...settings, policy: { base: '/p' } }, '/').policy).toEqual({ base: '/p' });
  const refused = (lora: unknown) => () => resolveRunConfig({ ...settings, policy: { base: '/p', lora } }, '/');
  expect(refused({ rank: 0 })).toThrow(/^policy.lora.rank: /);
  expect(refused({ alpha: -1 })).toThrow(/^policy.lora.alpha: /);
  expect(refused({ targetModules: ['q_proj', 'c_attn'] })).toThrow(/^policy.lora.targetModules.1: /);
  expect(refused({ targetModules: ['q_proj', 'q_proj'] })).toThrow(/name each module once/);
});

it('options of sampling are there when they are given, and bounded', () => {
  const base = { ...settings, policy: { base: '/p' } };
  expect(resolveRunConfig(base, '/').sampling).toEqual({ temperature: 1, topP: 1, topK: 0, maxTokens: 4096 });
  const sampling = { minP: 0.05, repetitionPenalty: 1.1, stop: ['</answer>'] };
  expect(resolveRunConfig({ ...base, sampling }, '/').sampling).toMatchObject(sampling);
  const refused = (given: unknown) => () => resolveRunConfig({ ...base, sampling: given }, '/');
  expect(refused({ minP: 2 })).toThrow(/^sampling.minP: /);
  expect(refused({ repetitionPenalty: 0 })).toThrow(/^sampling.repetitionPenalty: /);
  expect(refused({ stop: [''] })).toThrow(/^sampling.stop.0: /);
});
