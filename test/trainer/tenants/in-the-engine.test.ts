/** Adapters in the engine's thread, beside samples: what another process sees of them. */

import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { UserInputError } from '../../../protocol/user-input-error.ts';
import { createEmbeddedEngine, type EmbeddedEngine } from '../../../trainer/embedded/embedded-engine.ts';
import type { GenerateRequest } from '../../../trainer/generate-request.ts';
import { inScratch, qwen3Dir, someTokens } from '../tiny-policy.ts';
import { adam, crossEntropy, datum, settings } from './tenants.ts';

let engine: EmbeddedEngine;
beforeAll(async () => {
  engine = await createEmbeddedEngine();
});
afterAll(() => engine.close());

const request = (dir: string): GenerateRequest => ({
  policy: { dir, version: 0 },
  cacheKey: 'tenants',
  tokens: someTokens(9, 1),
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 8 },
  noiseKey: 'tenants',
  stopTokenIds: [],
});

test('trains, samples what it saved, and refuses', () =>
  inScratch(async (dir) => {
    const tenants = engine.tenants(qwen3Dir);
    await tenants.create('a', settings);
    const pass = crossEntropy([datum(40, 1), datum(11, 2)]);
    const losses: number[] = [];
    for (let step = 0; step < 8; step++) {
      // Sent together: they run in order.
      const [{ metrics, logprobs }] = await Promise.all([tenants.pass('a', pass), tenants.optimStep('a', adam)]);
      expect(logprobs.map(({ length }) => length)).toEqual([40, 11]);
      losses.push(metrics['loss:sum']!);
    }
    expect(losses.at(-1)).toBeLessThan(losses[0]! - 10);
    const to = path.join(dir, 'sampler');
    await tenants.save('a', to, 'sampler');
    const [tuned, base] = await Promise.all([engine.generate(request(to)), engine.generate(request(qwen3Dir))]);
    expect(tuned.logprobs).not.toEqual(base.logprobs);
    // The sampler merges the adapter; the trainer says the same of what was sampled.
    const all = [...someTokens(9, 1), ...tuned.tokens];
    const scored = await tenants.pass(
      'a',
      crossEntropy([{ tokens: Int32Array.from(all.slice(0, -1)), targets: Int32Array.from(all.slice(1)) }], false),
    );
    const own = [...scored.logprobs[0]!].slice(8);
    for (const [i, logprob] of tuned.logprobs.entries()) expect(own[i]).toBeCloseTo(logprob, 3);

    const wrong = tenants.pass('a', crossEntropy([datum(3, 1, { targets: Int32Array.of(1, 2, 10_000_000) })]));
    await expect(wrong).rejects.toBeInstanceOf(UserInputError);
    await expect(wrong).rejects.toMatchObject({ field: 'data[0].targets[2]', value: 10_000_000 });
    await tenants.drop('a');
    await tenants.drop('a');
    await expect(tenants.pass('a', pass)).rejects.toMatchObject({ name: 'UserInputError', field: 'id' });
    await expect(engine.tenants(to).create('b', settings)).rejects.toMatchObject({ name: 'UserInputError' });
  }));

test('a pass that is stopped adds nothing, and the engine goes on at once', async () => {
  const tenants = engine.tenants(qwen3Dir);
  await Promise.all([tenants.create('stopped', settings), tenants.create('whole', settings)]);
  const pass = crossEntropy([datum(30, 1)]);
  const long = crossEntropy(Array.from({ length: 1000 }, (_, i) => datum(60, i)));
  const expected = [await tenants.pass('whole', pass), await tenants.optimStep('whole', adam)];
  const over = new AbortController();
  const stopped = tenants.pass('stopped', long, over.signal);
  over.abort(new Error('too long'));
  await expect(stopped).rejects.toThrow('too long');
  const begun = new AbortController();
  const underWay = tenants.pass('stopped', long, begun.signal);
  // The thread answers between two batches: the pass is under way.
  await engine.describe();
  begun.abort(new Error('too long too'));
  await expect(underWay).rejects.toThrow('too long too');
  expect([await tenants.pass('stopped', pass), await tenants.optimStep('stopped', adam)]).toEqual(expected);
});
