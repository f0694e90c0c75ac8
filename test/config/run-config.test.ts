/** Hunts a run that starts with settings that cannot work, or is refused without the reason. */
import { expect, it } from 'vitest';
import { resolveRunConfig } from '../../config/run-config.ts';

const settings = { task: { name: 'swe-mini' } };

it.each([
  ['an endpoint', { endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm' } }, 'policy.endpoint'],
  [
    'an endpoint beside a base',
    { base: '/p', endpoint: { baseUrl: 'http://127.0.0.1:8000/v1', model: 'm' } },
    'policy.endpoint',
  ],
  ['an address as the base', { base: 'https://host/v1' }, 'policy.base'],
])('training of %s is refused with the reason and the remedy', (_, policy, field) => {
  const refused = () => resolveRunConfig({ ...settings, policy }, '/');
  expect(refused).toThrow(
    expect.objectContaining({
      name: 'UserInputError',
      field,
      remedy: expect.stringMatching(/cannot be trained.*no updates.*give policy\.base/) as string,
    }),
  );
});

it('another unknown setting is refused by its name', () => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p', model: 'm' } }, '/')).toThrow(/^policy.model: /);
});

it.each([
  [{ mode: 'sync', maxStalenessSteps: 2 }, 'training.maxStalenessSteps', /no effect in mode sync.*choose async/],
  [{ mode: 'one-step-off', maxStalenessSteps: 1 }, 'training.maxStalenessSteps', /no effect in mode one-step-off/],
  [{ mode: 'sync', rolloutVersion: 'newest' }, 'training.rolloutVersion', /choose one-step-off or async/],
  [
    { mode: 'async', maxStalenessSteps: 2, maskStalenessSteps: 2 },
    'training.maskStalenessSteps',
    /more than 2 steps late/,
  ],
  [{ mode: 'async', maxStalenessSteps: -1 }, 'training.maxStalenessSteps', /./],
  [{ mode: 'sometimes' }, 'training.mode', /./],
  [{ shards: 0 }, 'training.shards', /./],
  [{ shards: 65 }, 'training.shards', /./],
  [{ mode: 'async', placement: 'elsewhere' }, 'training.placement', /./],
])('training %j is refused by field, with the remedy', (training, field, remedy) => {
  const refused = () => resolveRunConfig({ ...settings, policy: { base: '/p' }, training }, '/');
  expect(refused).toThrow(expect.objectContaining({ field, remedy: expect.stringMatching(remedy) as string }));
});

it.each([
  [
    { dispatcher: { max_parallel_agents: 4 } },
    'dispatcher.max_parallel_agents: 4 cannot be used; write it as dispatcher.maxParallelAgents',
  ],
  [
    { max_eval_parallel_agents: 4 },
    'max_eval_parallel_agents: 4 cannot be used; write it as dispatcher.maxEvalParallelAgents',
  ],
  [{ agent: { max_turns: 4 } }, 'agent.max_turns: 4 cannot be used; write it as agent.maxTurns'],
  [{ breaker: { inARow: 4 } }, 'breaker.inARow: 4 cannot be used; write it as breaker.maxConsecutiveFailures'],
  [{ agent: { no_such_thing: 4 } }, 'agent.no_such_thing: 4 cannot be used; remove it, there is no such setting'],
])('%j, in another spelling, is refused with the right name', (over, message) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...over }, '/')).toThrow(message);
});

it('an adapter has defaults, and its modules are named', () => {
  const { policy } = resolveRunConfig({ ...settings, policy: { base: 'p', lora: { rank: 16 } } }, '/here');
  expect(policy).toEqual({
    base: 'file:///here/p',
    backend: 'embedded',
    lora: {
      rank: 16,
      alpha: 16,
      targetModules: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    },
  });
  expect(resolveRunConfig({ ...settings, policy: { base: '/p' } }, '/').policy).toEqual({
    base: 'file:///p',
    backend: 'embedded',
  });
  const refused = (lora: unknown) => () => resolveRunConfig({ ...settings, policy: { base: '/p', lora } }, '/');
  expect(refused({ rank: 0 })).toThrow(/^policy.lora.rank: /);
  expect(refused({ alpha: -1 })).toThrow(/^policy.lora.alpha: /);
  expect(refused({ targetModules: ['q_proj', 'c_attn'] })).toThrow(/^policy.lora.targetModules.1: /);
  expect(refused({ targetModules: ['q_proj', 'q_proj'] })).toThrow(/name each module once/);
});

it('options of sampling are kept if they are given, and bounded', () => {
  const base = { ...settings, policy: { base: '/p' } };
  expect(resolveRunConfig(base, '/').sampling).toEqual({ temperature: 1, topP: 1, topK: 0, maxTokens: 4096 });
  const sampling = { minP: 0.05, repetitionPenalty: 1.1, stop: ['</answer>'] };
  expect(resolveRunConfig({ ...base, sampling }, '/').sampling).toMatchObject(sampling);
  const refused = (given: unknown) => () => resolveRunConfig({ ...base, sampling: given }, '/');
  expect(refused({ minP: 2 })).toThrow(/^sampling.minP: /);
  expect(refused({ repetitionPenalty: 0 })).toThrow(/^sampling.repetitionPenalty: /);
  expect(refused({ stop: [''] })).toThrow(/^sampling.stop.0: /);
});

it('stragglers are waited for by default, and a group keeps two members', () => {
  const given = (batch: object) =>
    resolveRunConfig({ ...settings, policy: { base: '/p' }, batch }, '/').batch.stragglers;
  expect(given({})).toBeUndefined();
  expect(given({ samples: 4, stragglers: { deadlineSeconds: 900, completeGroupWithout: 2 } })).toEqual({
    deadlineSeconds: 900,
    completeGroupWithout: 2,
  });
  expect(() => given({ samples: 4, stragglers: { completeGroupWithout: 3 } })).toThrow(
    /^batch\.stragglers\.completeGroupWithout: 3 cannot be used; give a whole number up to 2/,
  );
  expect(() => given({ stragglers: { deadlineSeconds: 0 } })).toThrow(/^batch\.stragglers\.deadlineSeconds: 0 /);
});

// Larger values would kill workers or hang a workflow again and again: a list of 10⁹ names, a timer of centuries.
it.each<[object, string, string]>([
  [{ task: { name: 'swe-mini', train: 1e9 } }, 'task.train', 'give at most 1000000'],
  [
    { task: { name: 'swe-mini', train: 50_000 }, batch: { tasks: 20_001 } },
    'batch.tasks',
    'give less: a step may draw 20000 tasks (times maxSampleBatches) at most',
  ],
  [
    { task: { name: 'swe-mini', train: 50_000 }, batch: { tasks: 6_000, dynamicSampling: { type: 'filter' } } },
    'batch.tasks',
    'give less: a step may draw 20000 tasks (times maxSampleBatches) at most',
  ],
  [
    { batch: { tasks: 534 }, training: { mode: 'async' } },
    'batch.tasks',
    'give at most 533 (with maxStalenessSteps: 4) and more steps, or training.mode: sync or one-step-off',
  ],
  [
    {
      task: { name: 'swe-mini', train: 50_000 },
      batch: { tasks: 1_601 },
      training: { mode: 'async', maxStalenessSteps: 0 },
    },
    'batch.tasks',
    'give at most 1600 (with maxStalenessSteps: 0) and more steps, or training.mode: sync or one-step-off',
  ],
  [{ training: { mode: 'async', maxStalenessSteps: 1e9 } }, 'training.maxStalenessSteps', 'give at most 3198'],
  [{ batch: { tasks: 100, samples: 10_001 } }, 'batch.samples', 'give less: a step may have 1000000 rollouts at most'],
  [{ evaluation: { tasks: 1e9 } }, 'evaluation.tasks', 'give at most 20000'],
  [{ agent: { deadlineSeconds: 1e300 } }, 'agent.deadlineSeconds', 'give at most 315360000'],
  [
    { batch: { stragglers: { deadlineSeconds: 1e300 } } },
    'batch.stragglers.deadlineSeconds',
    'give seconds above 0, at most 315360000',
  ],
])('%j is refused: it is too large', (over, field, remedy) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...over }, '/')).toThrow(
    expect.objectContaining({ name: 'UserInputError', field, remedy }) as Error,
  );
});

it.each([
  [533, { mode: 'async' }],
  [1_600, { mode: 'async', maxStalenessSteps: 0 }],
  [20_000, { mode: 'one-step-off' }],
])('%d groups per step are accepted in %j', (tasks, training) => {
  const config = resolveRunConfig(
    { policy: { base: '/p' }, task: { name: 'swe-mini', train: 50_000 }, batch: { tasks }, training },
    '/',
  );
  expect(config.batch.tasks).toBe(tasks);
});

it.each([Number.NaN, Number.POSITIVE_INFINITY])('%d is refused and shown as such', (steps) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, steps }, '/')).toThrow(
    `steps: ${steps} cannot be used; give a number`,
  );
});

it.each<[object, string, string]>([
  [{ steps: 'x' }, 'steps', 'give a number'],
  [{ steps: 1.5 }, 'steps', 'give a whole number'],
  [{ steps: 0 }, 'steps', 'give at least 1'],
  [{ algorithm: { learningRate: 0 } }, 'algorithm.learningRate', 'give more than 0'],
  [{ breaker: { share: 2 } }, 'breaker.share', 'give at most 1'],
  [{ batch: 3 }, 'batch', 'give a mapping of settings: tasks, samples, dynamicSampling, stragglers'],
  [{ dir: 7 }, 'dir', 'give a text'],
  [{ steps: 'x', stepz: 3 }, 'stepz', 'remove it, there is no such setting; did you mean steps?'],
  [{ sampling: { stop: 'x' } }, 'sampling.stop', 'give a list'],
  [{ sampling: { stop: [''] } }, 'sampling.stop.0', 'give a text of at least 1 characters'],
  [{ training: { mode: 'fast' } }, 'training.mode', 'give one of sync, one-step-off, async'],
  [{ run: 'a b' }, 'run', 'give letters, digits, dot, dash and underscore, at most 100'],
  [JSON.parse('{ "__proto__": { "x": 1 } }') as object, '__proto__', 'remove it, there is no such setting'],
])('%j is refused with a remedy', (over, field, remedy) => {
  expect(() => resolveRunConfig({ ...settings, policy: { base: '/p' }, ...over }, '/')).toThrow(
    expect.objectContaining({ field, remedy }) as Error,
  );
});

it('the form of a conversation and hints are kept if they are given, and checked', () => {
  const given = (agent: object) => resolveRunConfig({ ...settings, policy: { base: '/p' }, agent }, '/').agent;
  expect(given({})).not.toHaveProperty('hints');
  expect(given({ codec: 'skyrl-text', reasoning: 'remove', hints: { sameAction: 3 } })).toMatchObject({
    codec: 'skyrl-text',
    reasoning: 'remove',
    hints: { parseError: true, sameAction: 3, turnsLeft: 0 },
  });
  expect(() => given({ hints: { sameAction: 1 } })).toThrow(/^agent\.hints\.sameAction: 1 .*give 0 \(off\), or 2/);
  expect(() => given({ hints: { repeated: 3 } })).toThrow(/^agent\.hints\.repeated: /);
  // A policy that is trained has no server that parses its calls.
  expect(() => given({ codec: 'server' })).toThrow(/^agent\.codec: "server" .*give one of hermes-json/);
});
