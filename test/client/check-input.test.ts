/** Hunts settings of a rollout that are ignored: with a mistyped name, the default would silently apply. */
import { expect, it } from 'vitest';
import { checkRolloutInput } from '../../client/check-input.ts';
import type { RolloutInput } from '../../client/index.ts';

const given = { task: 'swe-mini-held-out-0', policy: { uri: 'file:///p', version: 0 } };

it.each([
  [{}],
  [
    {
      agent: { maxTurns: 3, deadlineSeconds: 60, atDeadline: 'mask' },
      sampling: { temperature: 0, stop: ['x'] },
      seed: 7,
    },
  ],
  [{ policy: { endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm' } } }],
  [{ run: 'train/r', step: 2, sample: 1, gates: ['agent-run', 'reward'], reportsEnd: true }],
  [{ holds: false }],
])('%j can be started', (over) => {
  expect(() => checkRolloutInput({ ...given, ...over } as RolloutInput)).not.toThrow();
});

it.each([
  [
    { sampling: { temprature: 0 } },
    'sampling.temprature',
    'remove it, there is no such setting; did you mean sampling.temperature?',
  ],
  [{ sampling: { max_tokens: 9 } }, 'sampling.max_tokens', 'write it as sampling.maxTokens'],
  [{ sampling: { topP: 5 } }, 'sampling.topP', 'give at most 1'],
  [{ agent: { maxturns: 3 } }, 'agent.maxturns', 'remove it, there is no such setting; did you mean agent.maxTurns?'],
  [{ temperature: 0 }, 'temperature', 'remove it, there is no such setting; did you mean sampling.temperature?'],
  [{ seed: -1 }, 'seed', 'give at least 0'],
  [{ holds: 'no' }, 'holds', 'give true or false'],
  [{ task: '' }, 'task', 'give a text of at least 1 characters'],
  [
    { policy: { endpoint: { baseUrl: 'http://h/v1', model: 'm', apiKey: 'k' } } },
    'policy.endpoint.apiKey',
    'set apiKeyEnv to the name of the environment variable that holds the key',
  ],
])('%j is refused by its field', (over, field, remedy) => {
  expect(() => checkRolloutInput({ ...given, ...over } as RolloutInput)).toThrow(
    expect.objectContaining({ name: 'UserInputError', field, remedy }) as Error,
  );
});
