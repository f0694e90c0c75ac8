/** What every backend must do, whatever it is made of: a suite that each backend's test file runs. */

import { describe, expect, test } from 'vitest';
import type { UpdateSettings } from '../../../protocol/algorithm.ts';
import { BackendCalls, type DefinedSession } from '../../../trainer/backends/backend-calls.ts';
import type { BackendDefinition } from '../../../trainer/backends/definition.ts';
import { countTargets } from '../../../trainer/model/token-batch.ts';
import { forwardBackward } from '../../../trainer/training/train-policy.ts';
import { Tally } from '../../../trainer/training/tally.ts';
import type { Datum } from '../../../trainer/update-request.ts';
import { inScratch, someTokens } from '../tiny-policy.ts';

export interface BackendUnderTest {
  readonly definition: BackendDefinition;
  /** A first policy. */
  readonly base: string;
}

const signal = new AbortController().signal;

const algorithm: UpdateSettings = {
  learningRate: 1e-2,
  epochs: 1,
  minibatches: 1,
  clipLow: 0.2,
  clipHigh: 0.2,
  maxGradNorm: null,
  weightDecay: 0,
  betas: [0.9, 0.999],
  epsilon: 1e-8,
  microBatchTokens: 1024,
  loss: 'cross_entropy',
};

const data: readonly Datum[] = [9, 14, 6].map((length, i) => {
  const tokens = someTokens(length, i + 1);
  return { tokens, mask: tokens.map((_, t) => Number(t > 2)), logprobs: tokens.map((_, t) => (t > 2 ? -2 : 0)) };
});

type Session = DefinedSession<unknown>;

/** One pass over `some` of the data, as a part of a minibatch of all of it. */
async function pass(session: Session, some: readonly Datum[]): Promise<Float32Array[]> {
  const seen: Float32Array[] = [];
  const noting = {
    forwardBackward: async (given: Parameters<Session['forwardBackward']>[0]) => {
      const found = await session.forwardBackward(given);
      seen.push(found.logprobs);
      return found;
    },
  };
  const micro = some.map(({ tokens, mask, logprobs }) => {
    const count = countTargets({ tokens, mask });
    const old = Float64Array.from({ length: count }, () => -2);
    const sample = { count, recorded: old, old, reference: undefined };
    return { tokens, mask, logprobs, sample, advantages: new Float64Array(count).fill(1) };
  });
  const minibatch = { tokens: data.reduce((sum, one) => sum + countTargets(one), 0), sequences: data.length };
  await forwardBackward(noting, micro, { algorithm, toVersion: 1, pass: 0, epoch: 0, minibatch }, new Tally());
  return seen;
}

async function step(session: Session, parts: ReadonlyArray<readonly Datum[]> = [data]): Promise<number> {
  for (const part of parts) await pass(session, part);
  return (await session.optimStep(algorithm)) ?? Number.NaN;
}

const scored = async (session: Session): Promise<number[]> =>
  [...(await session.forward(data)).values()].flatMap((values) => [...values]);

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** `make` has a folder of its own. */
export function describeBackend(name: string, make: (dir: string) => Promise<BackendUnderTest>): void {
  const within = (body: (calls: BackendCalls, base: string) => Promise<void>) => () =>
    inScratch(async (dir) => {
      const { definition, base } = await make(dir);
      await body(new BackendCalls(definition), base);
    });
  const sample = async (calls: BackendCalls, uri: string, noiseKey: string, temperature = 1) => {
    const { vocabulary } = await calls.describe(uri, signal);
    const sampling = { temperature, topP: 1, topK: 0, maxTokens: 12 };
    const request = { uri, tokens: [1, 2, 3], sampling, stopTokenIds: [5], noiseKey, rollout: 'r' };
    return calls.sample(request, vocabulary, signal);
  };
  const opened = (calls: BackendCalls, uri: string) => calls.open({ uri, optimizer: true }, signal);

  describe(`backend ${name}`, () => {
    test(
      'samples what can be true, greedily the same each time',
      within(async (calls, base) => {
        await sample(calls, base, 'a');
        expect(await sample(calls, base, 'a', 0)).toEqual(await sample(calls, base, 'b', 0));
        if (calls.definition.promise === 'same-bits')
          expect(await sample(calls, base, 'a')).toEqual(await sample(calls, base, 'a'));
      }),
    );

    test(
      'samples with the log-probabilities that it trains with',
      within(async (calls, base) => {
        const { tokens, logprobs } = await sample(calls, base, 'a');
        const session = await opened(calls, base);
        const all = [1, 2, 3, ...tokens];
        const datum = { tokens: all, mask: all.map((_, i) => Number(i > 2)), logprobs: [] };
        const [trained] = (await session.forward([datum])).values();
        expect(trained).toHaveLength(logprobs.length);
        for (const [i, logprob] of logprobs.entries()) expect(trained?.[i]).toBeCloseTo(logprob, 3);
        await session.release();
      }),
    );

    test(
      'a step makes rewarded tokens likelier; a pass in parts is the pass in one',
      within(async (calls, base) => {
        const [whole, parts] = [await opened(calls, base), await opened(calls, base)];
        const before = await scored(whole);
        const [seen] = await pass(whole, data);
        for (const [i, logprob] of [...(seen ?? [])].entries()) expect(logprob).toBeCloseTo(before[i] ?? NaN, 3);
        const norm = (await whole.optimStep(algorithm)) ?? Number.NaN;
        expect(norm).toBeGreaterThan(0);
        const after = await scored(whole);
        expect(sum(after)).toBeGreaterThan(sum(before));
        await whole.release();
        expect(await step(parts, [data.slice(0, 1), data.slice(1)])).toBeCloseTo(norm, 3);
        const inParts = await scored(parts);
        for (const [i, logprob] of after.entries()) expect(inParts[i]).toBeCloseTo(logprob, 3);
        await parts.release();
      }),
    );

    test(
      'a saved state continues as if it had not been saved, with its moments; what was not saved is dropped',
      within(async (calls, base) => {
        const session = await opened(calls, base);
        await step(session);
        const first = await session.save({ name: 'run/step-1/a', version: 1 });
        await step(session);
        const straight = await scored(session);
        const second = await session.save({ name: 'run/step-2/a', version: 2 });
        await step(session);
        await session.release();
        const again = await opened(calls, first.uri);
        await step(again);
        const continued = await scored(again);
        for (const [i, logprob] of straight.entries()) expect(continued[i]).toBeCloseTo(logprob, 4);
        const other = await again.save({ name: 'run/step-2/b', version: 2 });
        expect(other.uri).not.toBe(second.uri);
        if (calls.definition.promise === 'same-bits') expect(other.sha256).toBe(second.sha256);
        await again.release();
      }),
    );

    test(
      'what is saved for sampling is sampled, and has a digest of its own',
      within(async (calls, base) => {
        const session = await opened(calls, base);
        await step(session);
        const { sampled } = await session.save({ name: 'run/step-1/a', version: 1 });
        await session.release();
        await sample(calls, sampled, 'a');
        const [one, other] = [await calls.describe(base, signal), await calls.describe(sampled, signal)];
        expect(other.digest).not.toBe(one.digest);
        expect(other.vocabulary).toBe(one.vocabulary);
      }),
    );
  });
}
