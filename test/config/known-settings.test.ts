/** Hunts an unknown setting that is refused without naming the one that was meant. */

import { expect, it } from 'vitest';
import { resolveSweepConfig } from '../../config/sweep-config.ts';
import { resolveRunConfig } from '../../config/run-config.ts';

const least = { policy: { base: '/p' }, task: { name: 'swe-mini' } };

it.each([
  [{ stepz: 3 }, 'did you mean steps?'],
  [{ sampling: { temprature: 1 } }, 'did you mean sampling.temperature?'],
  [{ batch: { dynamicSampling: { tipe: 'none' } } }, 'did you mean batch.dynamicSampling.type?'],
  [{ maxTurns: 3 }, 'did you mean agent.maxTurns?'],
  [{ algorithm: { learningrate: 1 } }, 'did you mean algorithm.learningRate?'],
])('a run with %j', (wrong, words) => {
  expect(() => resolveRunConfig({ ...least, ...wrong }, '/')).toThrow(words);
});

it('an eval, in a list too; without a similar name none is suggested', () => {
  const sweep = { tasks: { name: 'swe-mini' }, policies: ['starter'] };
  expect(() => resolveSweepConfig({ ...sweep, sample: 3 }, '/')).toThrow('did you mean samples?');
  expect(() => resolveSweepConfig({ ...sweep, sampling: [{ temprature: 3 }] }, '/')).toThrow(
    'did you mean sampling.0.temperature?',
  );
  expect(() => resolveSweepConfig({ ...sweep, topK: 3 }, '/')).toThrow('did you mean sampling.0.topK?');
  expect(() => resolveRunConfig({ ...least, zzzzzz: 1 }, '/')).toThrow(/there is no such setting$/);
});

it('a misspelt name is not reported as missing; a missing or empty one is', () => {
  expect(() => resolveRunConfig({ policy: { base: '/p' }, tsk: { name: 'swe-mini' } }, '/')).toThrow(
    /^tsk: .*did you mean task\?$/,
  );
  expect(() => resolveRunConfig({ policy: { base: '/p' } }, '/')).toThrow(
    'task is missing; give task: { name, options }',
  );
  expect(() => resolveRunConfig({ ...least, steps: null }, '/')).toThrow('steps is missing; give a number');
  expect(() => resolveRunConfig({ ...least, zzzzzz: null }, '/')).toThrow(
    'zzzzzz: "(not shown)" cannot be used; remove it',
  );
});
