/** Hunts answers of a backend that cannot be true and are used all the same, and calls that never end. */

import { describe, expect, test } from 'vitest';
import { BackendCalls } from '../../../trainer/backends/backend-calls.ts';
import type { BackendDefinition, SampleAnswer } from '../../../trainer/backends/definition.ts';
import { backendOfUri, defineBackend } from '../../../trainer/backends/registry.ts';
import type { Pass } from '../../../trainer/passes.ts';

const signal = new AbortController().signal;
const right: SampleAnswer = { tokens: [3, 9], logprobs: [-1, -2], finish: 'stop' };

const definition: BackendDefinition<string> = {
  name: 'told',
  schemes: ['told'],
  promise: 'exactly-once',
  losses: ['regular'],
  entropy: true,
  critic: false,
  lora: false,
  sampling: ['greedy'],
  maxContext: 100,
  images: false,
  describe: async () => await Promise.resolve({ parameters: 1, vocabulary: 10, tokenizer: '/t', digest: 'd' }),
  sample: async () => await Promise.resolve(right),
  open: async () => await Promise.resolve('session'),
  forward: async () => await Promise.resolve([[-1, -2]]),
  forwardBackward: async () => await Promise.resolve({ logprobs: [-1, -2], entropies: [1, 1] }),
  optimStep: async () => await Promise.resolve({ gradNorm: 1 }),
  saveState: async () => await Promise.resolve({ uri: 'told:state', sha256: null }),
  saveForSampler: async () => await Promise.resolve({ uri: 'told:sampler' }),
};

const calls = (over: Partial<BackendDefinition<string>> = {}) => new BackendCalls({ ...definition, ...over });
const answering = (value: unknown) => (() => Promise.resolve(value)) as never;
const datum = { tokens: [1, 2, 3], mask: [0, 1, 1], logprobs: [] };
const pass = { sequences: [{ sample: { count: 2 } }], entropies: true, entropyWeight: 0 } as unknown as Pass;
const request = {
  uri: 'told:p',
  tokens: [1],
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 4, stop: ['end'] },
  stopTokenIds: [9],
  noiseKey: 'k',
  rollout: 'r',
};

describe('an answer that cannot be true is a failure with a class', () => {
  test.each<[string, unknown, RegExp]>([
    ['no token', { ...right, tokens: [], logprobs: [] }, /tokens "of 0 entries"/],
    [
      'more tokens than asked for',
      { tokens: [1, 1, 1, 1, 9], logprobs: [0, 0, 0, 0, 0], finish: 'stop' },
      /1 to 4 ids/,
    ],
    ['an id outside of the vocabulary', { ...right, tokens: [10, 9] }, /tokens\[0\] 10.*below 10/],
    ['an id that is no whole number', { ...right, tokens: [1.5, 9] }, /tokens\[0\] 1.5/],
    ['fewer log-probabilities than tokens', { ...right, logprobs: [-1] }, /logprobs.*has 2 numbers/],
    ['a log-probability above 0', { ...right, logprobs: [-1, 0.1] }, /logprobs\[1\] 0.1.*at most 0/],
    ['a log-probability that is no number', { ...right, logprobs: [NaN, -1] }, /logprobs\[0\] NaN/],
    ['an end that is none', { ...right, finish: 'done' }, /finish "done"/],
    ['a stop without a stop token', { ...right, tokens: [9, 3] }, /stop tokens 9/],
    ['a length that is not reached', { ...right, finish: 'length' }, /4 ids if finish is length/],
    ['a stop text that nobody asked for', { ...right, stopText: 'fin' }, /stopText "fin"/],
    ['nothing', undefined, /tokens missing/],
  ])('of sample: %s', async (_what, answer, message) => {
    const wrong = calls({ sample: answering(answer) }).sample(request, 10, signal);
    await expect(wrong).rejects.toMatchObject({ name: 'BackendAnswerWrong', message: expect.stringMatching(message) });
  });

  test.each<[string, Partial<BackendDefinition<string>>, (backend: BackendCalls<string>) => Promise<unknown>]>([
    ['forward: too few lists', { forward: answering([]) }, (b) => b.forward('s', [datum], signal)],
    ['forward: a number above 0', { forward: answering([[-1, 2]]) }, (b) => b.forward('s', [datum], signal)],
    [
      'forwardBackward: no log-probability of a token',
      { forwardBackward: answering({ logprobs: [-1], entropies: [1, 1] }) },
      (b) => b.forwardBackward('s', pass, signal),
    ],
    [
      'forwardBackward: no entropies',
      { forwardBackward: answering({ logprobs: [-1, -1] }) },
      (b) => b.forwardBackward('s', pass, signal),
    ],
    [
      'optimStep: no finite norm',
      { optimStep: answering({ gradNorm: Infinity }) },
      (b) => b.optimStep('s', {} as never, signal),
    ],
    [
      'saveState: another scheme',
      { saveState: answering({ uri: '/tmp/x', sha256: null }) },
      (b) => b.saveState('s', { name: 'n', version: 1 }, signal),
    ],
    [
      'saveState: no digest',
      { saveState: answering({ uri: 'told:x', sha256: 'x' }) },
      (b) => b.saveState('s', { name: 'n', version: 1 }, signal),
    ],
    [
      'describe: no vocabulary',
      { describe: answering({ parameters: 1, tokenizer: '/t', digest: 'd' }) },
      (b) => b.describe('told:p', signal),
    ],
    [
      'describe: a relative tokenizer',
      { describe: answering({ parameters: 1, vocabulary: 2, tokenizer: 't', digest: 'd' }) },
      (b) => b.describe('told:p', signal),
    ],
  ])('of %s', async (_what, over, call) => {
    await expect(call(calls(over))).rejects.toMatchObject({ name: 'BackendAnswerWrong' });
  });

  test('right answers are used', async () => {
    expect(await calls().sample(request, 10, signal)).toEqual(right);
    expect([...(await calls().forward('s', [datum], signal)).values()]).toEqual([Float64Array.of(-1, -2)]);
    const session = await calls().open({ uri: 'told:p', optimizer: true }, signal);
    expect(await session.save({ name: 'n', version: 1 })).toEqual({
      uri: 'told:state',
      sha256: null,
      sampled: 'told:sampler',
    });
  });
});

describe('a call', () => {
  test('that does not return ends in its time, and its signal with it', async () => {
    let ended = false;
    const hanging = calls({
      callSeconds: 0.05,
      sample: (_request, own) => new Promise(() => own.addEventListener('abort', () => (ended = true))),
    });
    await expect(hanging.sample(request, 10, signal)).rejects.toMatchObject({
      name: 'BackendTimedOut',
      message: 'backend told: sample did not return within 0.05 s',
    });
    expect(ended).toBe(true);
  }, 10_000);

  test('that throws has a class of its own; a cancelled one has the reason of its signal', async () => {
    const throwing = calls({ open: () => Promise.reject(new RangeError('no session')) });
    await expect(throwing.open({ uri: 'told:p', optimizer: true }, signal)).rejects.toMatchObject({
      name: 'BackendFailed',
      message: expect.stringContaining('backend told: open threw RangeError: no session') as string,
    });
    const stop = new AbortController();
    const waiting = calls({ open: () => new Promise(() => undefined) }).open(
      { uri: 'told:p', optimizer: true },
      stop.signal,
    );
    stop.abort(new Error('nobody waits'));
    await expect(waiting).rejects.toThrow('nobody waits');
  });
});

describe('a definition', () => {
  test.each<[string, object, RegExp]>([
    ['without a function', { sample: undefined }, /sample is missing; give a function/],
    ['with a scheme of others', { schemes: ['file'] }, /schemes .*give others than file/],
    ['without a promise', { promise: 'some' }, /promise is "some"; give same-bits or exactly-once/],
    ['with a critic', { critic: true }, /critic is true; give false/],
    ['with an option that is none', { sampling: ['heat'] }, /sampling .*give a list of greedy/],
    ['without a context', { maxContext: null }, /maxContext is null; give a number of tokens/],
    ['with the name of the embedded one', { name: 'embedded' }, /name is "embedded"/],
  ])('%s is refused', (_what, over, message) => {
    expect(() => defineBackend({ ...definition, ...over } as BackendDefinition)).toThrow(message);
  });

  test('is found by the schemes of its URIs; a scheme of none, or of two, is refused with a remedy', () => {
    defineBackend({ ...definition, name: 'told', schemes: ['told', 'both'] });
    defineBackend({ ...definition, name: 'twin', schemes: ['both'] });
    expect(backendOfUri('told:p')?.name).toBe('told');
    expect(backendOfUri('file:///p')).toBeUndefined();
    expect(() => backendOfUri('both:p')).toThrow(/told and twin both have the scheme both/);
    expect(() => backendOfUri('s3://bucket/p', undefined, 'policy.base')).toThrow(
      /policy\.base: .*no backend has the scheme s3: give a path, a hub id or a URI with one of file:, hub:, told:/,
    );
  });
});
