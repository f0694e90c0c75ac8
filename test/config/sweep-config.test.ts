/** Hunts policies that are misread, duplicate names that would share results, and keys that an error message shows. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { evalFolder } from '../../reports/evaluation/eval-records.ts';
import { resolveSweepConfig } from '../../config/sweep-config.ts';
import { UserInputError } from '../../protocol/user-input-error.ts';

const server = { baseUrl: 'http://127.0.0.1:8000/v1', model: 'org/m-7b' };
const resolve = (policies: unknown[], over: object = {}) =>
  resolveSweepConfig({ tasks: { name: 'swe-mini' }, policies, ...over }, '/srv');
const refusal = (policies: unknown[]): UserInputError => {
  try {
    resolve(policies);
  } catch (error) {
    if (error instanceof UserInputError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
};

it('policies of all kinds can be combined, each with a name', () => {
  expect(
    resolve([
      'starter',
      'r@3',
      { name: 'mine', policy: './models/m' },
      { endpoint: server },
      { name: 'b', endpoint: { ...server, mode: 'tokens', tokenizer: 'tok' } },
    ]).policies,
  ).toMatchObject([
    { name: 'starter', policy: 'starter' },
    { name: 'r@3', policy: 'r@3' },
    { name: 'mine', policy: 'file:///srv/models/m' },
    { name: 'm-7b', endpoint: { ...server, mode: 'auto', maxTries: 5 } },
    { name: 'b', endpoint: { ...server, mode: 'tokens', tokenizer: '/srv/tok' } },
  ]);
});

it('a resolved configuration stays the same if it is resolved again: the client and the workflow both resolve it', () => {
  const once = resolve([
    'starter',
    { endpoint: server },
    { name: 'c', endpoint: { ...server, mode: 'chat', extraBody: { a: { b: 1 } } } },
  ]);
  expect(resolveSweepConfig(once, '/elsewhere')).toEqual(once);
});

it('a model whose name is no valid folder name gets a valid one, and duplicate names are refused', () => {
  expect(resolve([{ endpoint: { ...server, model: 'ft:gpt 4/ü@1' } }]).policies[0]?.name).toMatch(
    /^[A-Za-z0-9][A-Za-z0-9._@-]*$/,
  );
  expect(resolve([{ endpoint: { ...server, model: 'm'.repeat(300) } }]).policies[0]?.name).toHaveLength(100);
  expect(refusal(['starter', { endpoint: { ...server, model: 'starter' } }])).toMatchObject({
    field: 'policies',
    value: 'starter',
  });
});

it.each([
  ['a setting that there is not', { endpoint: { ...server, retries: 3 } }, 'policies.0.endpoint.retries'],
  ['no model', { endpoint: { baseUrl: server.baseUrl } }, 'policies.0.endpoint.model'],
  ['an address alone', { endpoint: server.baseUrl }, 'policies.0.endpoint'],
  ['nothing', { endpoint: null }, 'policies.0.endpoint'],
  ['a directory too', { policy: 'starter', endpoint: server }, 'policies.0'],
  ['a name for no folder', { name: '../x', endpoint: server }, 'policies.0.name'],
])('an endpoint with %s is refused by the name of the field', (_, policy, field) => {
  expect(refusal([policy]).field).toBe(field);
});

it.each([
  ['in a field of its own', { endpoint: { ...server, apiKey: 'sk-secret' } }],
  ['where its name belongs', { endpoint: { ...server, apiKeyEnv: 'sk-secret' } }],
  ['in the address', { endpoint: { ...server, baseUrl: 'https://user:sk-secret@host/v1' } }],
  ['beside the endpoint', { endpoint: server, apiKey: 'sk-secret' }],
  ['without an endpoint', { ...server, apiKey: 'sk-secret' }],
  ['beside a directory', { policy: 'starter', apiKey: 'sk-secret' }],
  [
    'and a name that cannot be',
    { name: '../x', endpoint: { ...server, extraBody: { key: 'sk-secret' }, mode: 'chat' } },
  ],
])('a key %s is not shown', (_, policy) => {
  const { message, field, value, remedy } = refusal([policy]);
  expect(JSON.stringify([message, field, value, remedy])).not.toContain('secret');
});

it('two evals never share a folder, and none is outside its directory', () => {
  const character = fc.constantFrom('a', '0', '.', '-', ':', '_');
  const name = fc.array(character, { minLength: 1, maxLength: 12 }).map((rest) => `e${rest.join('')}`);
  fc.assert(
    fc.property(name, name, (one, other) => {
      const [first, second] = [evalFolder('/evals', one), evalFolder('/evals', other)];
      expect(first === second).toBe(one === other);
      expect(first).toMatch(/^\/evals\/[^/:]+$/);
    }),
  );
  expect(evalFolder('/evals', 'night-2026-01-31T06:00:00Z')).toBe('/evals/night-2026-01-31T06+00+00Z');
});

it.each([
  [{ name: 'swe-mini', split: 'the test' }, 'tasks.split', 'give the name of a split, such as train'],
  [{ name: 'swe-mini', count: '9' }, 'tasks.count', 'give a number'],
  [{ name: 'swe-mini', number: 9 }, 'tasks.number', 'remove it, there is no such setting'],
  [{ name: 'swe-mini', held_out: 9 }, 'tasks.held_out', 'remove it, there is no such setting'],
  [{ ids: ['a', 3] }, 'tasks.ids.1', 'give a text'],
  [{ ids: ['a', 'b', 'a'] }, 'tasks.ids', 'name each task once (samples sets how often each is rolled out)'],
  [{}, 'tasks', 'give { name, split, from, count } or { ids: [...] }'],
  ['swe-mini', 'tasks', 'give { name, split, from, count } or { ids: [...] }'],
])('tasks %j are refused by the field that is wrong', (tasks, field, remedy) => {
  expect(() => resolve(['starter'], { tasks })).toThrow(expect.objectContaining({ field, remedy }) as Error);
});
