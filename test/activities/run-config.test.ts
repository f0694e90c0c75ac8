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

it('stragglers are waited for unless a run says otherwise, and a group keeps two members', () => {
  const given = (batch: object) => resolveRunConfig({ ...settings, policy: { base: '/p' }, batch }, '/').batch.stragglers;
  expect(given({})).toBeUndefined();
  expect(given({ samples: 4, stragglers: { deadlineSeconds: 900, completeGroupWithout: 2 } })).toEqual({ deadlineSeconds: 900, completeGroupWithout: 2 });
  expect(() => given({ samples: 4, stragglers: { completeGroupWithout: 3 } })).toThrow(/^batch\.stragglers\.completeGroupWithout: 3 cannot be used; give a whole number up to 2/);
  expect(() => given({ stragglers: { deadlineSeconds: 0 } })).toThrow(/^batch\.stragglers\.deadlineSeconds: 0 /);
});
