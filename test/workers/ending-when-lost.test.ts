/** Hunts a gpu process that continues without its engine: it would fail every later call. */
import { expect, it, vi } from 'vitest';
import { createEmbeddedEngine } from '../../trainer/embedded/embedded-engine.ts';
import type { GenerateRequest } from '../../trainer/generate-request.ts';
import { endingWhenLost } from '../../workers/roles/ending-when-lost.ts';
import { ScriptedEngine } from '../activities/scripted-parts.ts';

const request: GenerateRequest = {
  policy: { dir: '/p', version: 0 },
  cacheKey: 'r',
  tokens: [1],
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 1 },
  stopTokenIds: [],
  noiseKey: 'n',
};

it('ends the process when its thread is gone, and the request fails with the reason', async () => {
  const thread = new URL('../trainer/sampler/threads/dies-when-asked.ts', import.meta.url);
  const end = vi.fn();
  const engine = endingWhenLost(await createEmbeddedEngine({ thread }), end);
  await expect(engine.generate(request)).rejects.toMatchObject({ name: 'EngineLost' });
  expect(end).toHaveBeenCalled();
  await engine.close();
});

it('passes on all requests and results of an engine', async () => {
  const scripted = new ScriptedEngine();
  scripted.cost = { queueSeconds: 0, seconds: 1, cachedTokens: 2, batchSize: 3 };
  scripted.answers = [{ tokens: [1], logprobs: [0], finishReason: 'stop' }];
  const none = () => Promise.reject(new Error('no update was asked for'));
  const pooled = Object.assign(scripted, { planUpdate: none, forwardBackward: none, optimStep: none });
  const told = vi.fn();
  const { signal } = new AbortController();
  await endingWhenLost(pooled).generate(request, signal, told);
  expect(scripted.signals).toEqual([signal]);
  expect(told).toHaveBeenCalledWith(scripted.cost);
});

it('does not end because of an error of one request', async () => {
  const scripted = new ScriptedEngine();
  scripted.answers = [() => Promise.reject(new TypeError('no such token'))];
  const none = () => Promise.reject(new Error('no update was asked for'));
  const pooled = Object.assign(scripted, { planUpdate: none, forwardBackward: none, optimStep: none });
  const end = vi.fn();
  await expect(endingWhenLost(pooled, end).generate(request)).rejects.toThrow('no such token');
  expect(end).not.toHaveBeenCalled();
});
