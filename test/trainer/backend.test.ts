/** Hunts updates that need more than the interface of a backend: one that answers without computing is enough. */

import { describe, expect, test } from 'vitest';
import type { StateToLoad, Trainer, TrainingSession } from '../../trainer/backend.ts';
import type { Pass } from '../../trainer/passes.ts';
import type { Datum, UpdateRequest } from '../../trainer/update-request.ts';
import { countTargets } from '../../trainer/model/token-batch.ts';
import { Updater } from '../../trainer/update.ts';

const data: Datum[] = [3, 5, 4, 6].map((length, i) => ({
  tokens: Array.from({ length }, (_, t) => t + i),
  mask: Array.from({ length }, (_, t) => Number(t > 0)),
  logprobs: Array.from({ length }, (_, t) => (t > 0 ? -1 : 0)),
  credit: { reward: i % 2, group: 'g', rollout: `r${i}` },
}));

const request: UpdateRequest = {
  fromDir: 'run/weights/v0',
  toDir: 'run/weights/v1',
  toVersion: 1,
  data,
  referenceDir: 'run/base',
  algorithm: {
    learningRate: 1e-3,
    epochs: 2,
    minibatches: 2,
    clipLow: 0.2,
    clipHigh: 0.2,
    maxGradNorm: 1,
    weightDecay: 0,
    betas: [0.9, 0.99],
    epsilon: 1e-8,
    microBatchTokens: 16,
    kl: { in: 'loss', estimator: 'k3', coefficient: 0.1 },
    offPolicyCorrection: { tisRatioType: 'token', tokenTisRatioClipHigh: 2 },
  },
};

const ones = (each: readonly Datum[]) =>
  new Map(each.map((datum) => [datum, new Float64Array(countTargets(datum)).fill(-1)]));

class ToldBackend implements Trainer {
  readonly calls: string[] = [];
  readonly passes: Pass[] = [];
  loaded: StateToLoad | undefined;
  onPass: () => void = () => undefined;

  async loadState(state: StateToLoad): Promise<TrainingSession> {
    this.loaded = state;
    const say = (call: string) => void this.calls.push(call);
    say('loadState');
    return {
      forward: async (each) => (say('forward'), ones(each)),
      forwardBackward: async (pass) => {
        say('forwardBackward');
        this.passes.push(pass);
        this.onPass();
        const count = pass.sequences.reduce((sum, { sample }) => sum + sample.count, 0);
        return { logprobs: new Float32Array(count).fill(-1), entropies: undefined };
      },
      optimStep: async () => (say('optimStep'), 2),
      saveState: async ({ dir, version, metrics }) => (
        say(`saveState ${dir}`),
        { step: version, version, sha256: 'theirs', metrics }
      ),
      publish: async ({ dir }) => say(`publish ${dir}`),
      release: async () => say('release'),
    };
  }

  async score(dir: string, each: readonly Datum[]) {
    this.calls.push(`score ${dir}`);
    return ones(each);
  }
}

describe('an update', () => {
  test('calls only the primitives of a backend, in order', async () => {
    const backend = new ToldBackend();
    const metrics = await new Updater(backend).run(request);
    expect(backend.loaded).toEqual({ dir: 'run/weights/v0', lora: undefined, optimizer: true });
    const step = ['forwardBackward', 'optimStep'];
    const steps = backend.calls.slice(3, -3).filter((call, i, all) => call !== all[i - 1]);
    expect([...backend.calls.slice(0, 3), ...steps, ...backend.calls.slice(-3)]).toEqual([
      'loadState',
      'forward',
      'score run/base',
      ...step,
      ...step,
      ...step,
      ...step,
      'saveState run/weights/v1',
      'publish run/weights/v1',
      'release',
    ]);
    expect(metrics).toMatchObject({ sha256: 'theirs', gradNorm: 2, kl: 0, trainedTokens: 14 });
    expect(new Set(backend.passes.map(({ noiseKey }) => noiseKey)).size).toBe(backend.passes.length);
  });

  test('that fails saves nothing, and releases its session', async () => {
    const backend = new ToldBackend();
    backend.onPass = () => {
      if (backend.passes.length === 2) throw new Error('the server is gone');
    };
    await expect(new Updater(backend).run(request)).rejects.toThrow('the server is gone');
    expect(backend.calls.at(-1)).toBe('release');
    expect(backend.calls.some((call) => call.startsWith('saveState'))).toBe(false);
  });
});
