/**
 * Hunts changes of a live run that affect another setting, that reach too far, or that do not name the previous value.
 */
import { describe, expect, it } from 'vitest';
import { openedConfig } from '../../support/some-tasks.ts';
import { changed, changesOf, checkEffect, checkReconfiguration } from '../../../workflows/training/reconfigure.ts';

const config = openedConfig({ run: 'r', policy: { base: '/p' }, task: { name: 't' }, steps: 9 });
const at = '2026-01-01T00:00:00.000Z';

it('a short name and the name in the configuration mean the same', () => {
  const short = changesOf(config, { learningRate: 0.5, evaluateEvery: 2, maxParallelAgents: 3 }, 4, at);
  const dotted = changesOf(
    config,
    { 'algorithm.learningRate': 0.5, 'evaluation.every': 2, 'dispatcher.maxParallelAgents': 3 },
    4,
    at,
  );
  expect(short).toEqual(dotted);
  expect(short[0]).toEqual({ at, step: 4, field: 'algorithm.learningRate', from: 1e-6, to: 0.5 });
  expect(changed(config, short)).toEqual({
    ...config,
    algorithm: { ...config.algorithm, learningRate: 0.5 },
    evaluation: { ...config.evaluation, every: 2 },
    dispatcher: { ...config.dispatcher, maxParallelAgents: 3 },
  });
});

it('a value that is in effect already is not a change', () => {
  expect(changesOf(config, { steps: 9 }, 0, at)).toEqual([]);
});

describe('is refused:', () => {
  it.each([
    [{ seed: 2 }, /seed: cannot be changed on a live run; give one of learningRate, temperature, steps/],
    [{ 'policy.base': 2 }, /policy.base: cannot be changed/],
    [{ learningRate: 0 }, /learningRate: 0 cannot be used; give a number above 0/],
    [{ learningRate: 1, 'algorithm.learningRate': 2 }, /algorithm.learningRate: 2 cannot be used; it is given twice/],
    [{ temperature: 11 }, /at most 10/],
    [{ temperature: Number.NaN }, /a number of at least 0/],
    [{ steps: 4 }, /more than 4, the run's current step/],
    [{ checkpointEvery: 1.5 }, /a whole number/],
    [{ maxParallelAgents: 0 }, /a whole number of at least 1/],
  ])('%j', (change, why) => {
    expect(() => checkReconfiguration(change as Record<string, number>, 4)).toThrow(why);
  });
});

it('refuses a width that the dispatcher of the run does not have', () => {
  const bounded = { ...config, dispatcher: { type: 'bounded' as const, maxParallelAgents: 4 } };
  expect(() => checkEffect(bounded, { 'dispatcher.maxEvalParallelAgents': 2 })).toThrow(/no effect with bounded/);
  expect(() => checkEffect(bounded, { maxParallelAgents: 2, learningRate: 1 })).not.toThrow();
});

it('changes the learning rate of a critic if one is trained', () => {
  const given = { run: 'r', policy: { base: '/p' }, task: { name: 't' }, algorithm: { advantage: 'gae' } };
  const withCritic = openedConfig(given);
  expect(() => checkEffect(withCritic, { criticLearningRate: 1e-4 })).not.toThrow();
  const { critic, ...rest } = changed(withCritic, changesOf(withCritic, { criticLearningRate: 1e-4 }, 1, at)).algorithm;
  expect([critic?.learningRate, rest.learningRate]).toEqual([1e-4, withCritic.algorithm.learningRate]);
  expect(() => checkEffect(config, { 'algorithm.critic.learningRate': 1e-4 })).toThrow(
    /trains no critic \(advantage grpo\)/,
  );
});

it('refuses a temperature of 0 if the backend of the policy cannot sample greedily', () => {
  const sampling = { ...config, withoutGreedy: true as const };
  expect(() => checkEffect(sampling, { temperature: 0 })).toThrow(/give a number above 0: backend embedded/);
  expect(() => checkEffect(sampling, { temperature: 0.5, learningRate: 1 })).not.toThrow();
  expect(() => checkEffect(config, { temperature: 0 })).not.toThrow();
});

it('changes the bound on staleness of an asynchronous run, and of no other', () => {
  const overlapping = { ...config, training: { mode: 'async' as const, maxStalenessSteps: 4 } };
  expect(() => checkEffect(overlapping, { maxStalenessSteps: 2 })).not.toThrow();
  expect(changed(overlapping, changesOf(overlapping, { maxStalenessSteps: 2 }, 1, at)).training).toEqual({
    mode: 'async',
    maxStalenessSteps: 2,
  });
  expect(() => checkEffect(config, { 'training.maxStalenessSteps': 2 })).toThrow(/no effect in mode sync/);
  const large = { ...overlapping, batch: { ...config.batch, tasks: 500 } };
  expect(() => checkEffect(large, { maxStalenessSteps: 4, steps: 10 })).not.toThrow();
  expect(() => checkEffect(large, { 'training.maxStalenessSteps': 5 })).toThrow(
    /maxStalenessSteps: 5 cannot be used; a step can then have at most 457 groups, and batch.tasks is 500/,
  );
});
