/** Options of sampling: how each changes tokens and log-probabilities, and which values are refused before any work. */

import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { GenerateRequest, GenerateResult } from '../../../trainer/generate-request.ts';
import { InvalidRequest } from '../../../trainer/sampler/generation.ts';
import { loadPolicy } from '../../../trainer/sampler/policy-loader.ts';
import { rankTokens, sampleToken } from '../../../trainer/sampler/sample-token.ts';
import { Sampler } from '../../../trainer/sampler/sampler.ts';
import { StopTexts } from '../../../trainer/sampler/stop-texts.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { qwen3Dir } from '../tiny-policy.ts';

const sampler = new Sampler({ load: ({ dir }) => loadPolicy(dir), admissionMs: 1, gatherMs: 1 });
const tokenizer = await loadTokenizer(qwen3Dir);
afterAll(() => sampler.dispose());

type Change = Partial<Omit<GenerateRequest, 'sampling'>> & { readonly sampling?: Partial<GenerateRequest['sampling']> };
let calls = 0;

const request = (name: string, { sampling, ...rest }: Change = {}): GenerateRequest => ({
  policy: { dir: qwen3Dir, version: 0 },
  cacheKey: `${name} ${calls++}`,
  tokens: tokenizer.encode('The pilot measured seven bright lanterns before noon.'),
  sampling: { temperature: 1, topP: 1, topK: 0, maxTokens: 24, ...sampling },
  stopTokenIds: [],
  noiseKey: name,
  ...rest,
});
const generate = (name: string, change?: Change): Promise<GenerateResult> => sampler.generate(request(name, change));

describe('repetition penalty', () => {
  const penalised = (repetitionPenalty: number, seen: number[], logits = [1, 3, -2]): number =>
    sampleToken(
      Float32Array.from(logits),
      3,
      { temperature: 0, topP: 1, topK: 0, maxTokens: 1, repetitionPenalty },
      0,
      seen,
    ).token;

  it('divides positive logits and multiplies negative ones, once for each token', () => {
    expect(penalised(1, [1])).toBe(1);
    expect(penalised(4, [1])).toBe(0);
    expect(penalised(2.9, [1, 1, 1])).toBe(1);
    expect(penalised(2, [0], [-1, -1.5, -3])).toBe(1);
  });

  it("does not change the log-probability, which is the policy's", () => {
    const logits = Float32Array.of(1, 3, -2);
    const { token, logprob } = sampleToken(
      logits,
      3,
      { temperature: 0, topP: 1, topK: 0, maxTokens: 1, repetitionPenalty: 4 },
      0,
      [1],
    );
    expect(logprob).toBe(rankTokens(logits, 1, token, 0).logprob);
  });

  it('if large, keeps greedy decoding from repeating a token', async () => {
    const plain = await generate('penalty', { sampling: { temperature: 0 } });
    const { tokens } = await generate('penalty', { sampling: { temperature: 0, repetitionPenalty: 10 } });
    expect(new Set(plain.tokens).size).toBeLessThan(24);
    expect(new Set(tokens).size).toBe(24);
  });
});

describe('min-p', () => {
  it('of 1 keeps only the likeliest token', async () => {
    const greedy = await generate('min-p', { sampling: { temperature: 0 } });
    expect((await generate('min-p', { sampling: { minP: 1 } })).tokens).toEqual(greedy.tokens);
  });
});

describe('stop texts', () => {
  it('end the answer with the token that completes one, wherever it begins and ends', async () => {
    const { tokens } = await generate('stop');
    const text = tokenizer.decode(tokens);
    const from = Math.floor(text.length / 2);
    const stop = text.slice(from, from + 3);
    const ended = await generate('stop', { sampling: { stop: ['never said', stop] } });
    expect(ended).toMatchObject({ finishReason: 'stop', stopText: stop });
    expect(ended.tokens).toEqual(tokens.slice(0, ended.tokens.length));
    expect(tokenizer.decode(ended.tokens)).toContain(stop);
    expect(tokenizer.decode(ended.tokens.slice(0, -1))).not.toContain(stop);
  });

  it('are found as in a search of the whole text after each token', () => {
    const decode = (ids: readonly number[]): string => Buffer.from(ids).toString('utf8');
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '🦜'), minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(
        fc.array(text, { minLength: 1, maxLength: 3 }),
        fc.string({ unit: fc.constantFrom('a', 'b', 'é', '🦜'), maxLength: 30 }),
        (stops, said) => {
          const ids = [...Buffer.from(said)];
          const texts = new StopTexts(stops, decode);
          const whole = ids.findIndex((_, i) => stops.some((stop) => decode(ids.slice(0, i + 1)).includes(stop)));
          const found = ids.findIndex((_, i) => texts.endedBy(ids.slice(0, i + 1)) !== undefined);
          expect(found).toBe(whole);
        },
      ),
      { seed: 1, numRuns: 300 },
    );
  });
});

describe('log-probabilities', () => {
  it('of the likeliest tokens are reported for each sampled token', async () => {
    const { tokens, logprobs, topLogprobs = [] } = await generate('top', { topLogprobs: 512 - 450 });
    expect(topLogprobs).toHaveLength(tokens.length);
    for (const [i, top] of topLogprobs.entries()) {
      expect(top).toHaveLength(62);
      expect(top.every(({ logprob }, j) => j === 0 || logprob <= top[j - 1]!.logprob)).toBe(true);
      const own = top.find(({ token }) => token === tokens[i]);
      if (own !== undefined) expect(own.logprob).toBe(logprobs[i]);
    }
    const greedy = await generate('top', { sampling: { temperature: 0 }, topLogprobs: 1 });
    expect(greedy.topLogprobs?.map(([first]) => first?.token)).toEqual(greedy.tokens);
    expect(greedy.topLogprobs?.map(([first]) => first?.logprob)).toEqual(greedy.logprobs);
  });

  it('are those of the likeliest at a low temperature too, at which all weights but one are 0 in float64', () => {
    const logits = Float32Array.of(0, 5, 10, 7, -Infinity, 5);
    expect(rankTokens(logits, 0.004, 2, 4).top).toEqual(
      [
        [2, 0],
        [3, -750],
        [1, -1250],
        [5, -1250],
      ].map(([token, logprob]) => ({ token, logprob })),
    );
    expect(rankTokens(logits, 0.004, 2, 9).top.map(({ token }) => token)).toEqual([2, 3, 1, 5, 0, 4]);
  });

  it('of a prompt have the bits that sampling gave, for any contents of the cache', async () => {
    const first = request('prompt', { sampling: { maxTokens: 200 } });
    const { tokens, logprobs } = await sampler.generate(first);
    const whole = [...first.tokens, ...tokens];
    // The same cache slot: its prefix must not be reused.
    const { promptLogprobs = [] } = await sampler.generate({
      ...first,
      tokens: whole,
      promptLogprobs: true,
      topLogprobs: 2,
      sampling: { ...first.sampling, maxTokens: 1 },
    });
    expect(promptLogprobs).toHaveLength(whole.length);
    expect(promptLogprobs[0]).toBeNull();
    expect(promptLogprobs.slice(1).map((one) => one?.token)).toEqual(whole.slice(1));
    expect(promptLogprobs.slice(first.tokens.length).map((one) => one?.logprob)).toEqual(logprobs);
    expect(promptLogprobs.slice(1).every((one) => one?.top.length === 2 && one.top[0]!.logprob >= one.logprob)).toBe(
      true,
    );
  });

  it('do not exist for a prompt of one token', async () => {
    expect(
      (await generate('one', { tokens: [67], promptLogprobs: true, sampling: { maxTokens: 1 } })).promptLogprobs,
    ).toEqual([null]);
  });
});

it('several answers to one prompt are those of their own noise keys, each alone', async () => {
  const one = request('many');
  const answers = await Promise.all(
    [0, 1, 2].map((i) => sampler.generate({ ...one, cacheKey: `${one.cacheKey}/${i}`, noiseKey: `many/${i}` })),
  );
  expect(new Set(answers.map(({ tokens }) => tokens.join())).size).toBe(3);
  for (const [i, answer] of answers.entries())
    expect(await sampler.generate({ ...one, noiseKey: `many/${i}` })).toEqual(answer);
});

describe('refused before any work', () => {
  it.each<[string, Change]>([
    ['sampling.minP', { sampling: { minP: 1.5 } }],
    ['sampling.repetitionPenalty', { sampling: { repetitionPenalty: 0 } }],
    ['sampling.stop', { sampling: { stop: [''] } }],
    ['sampling.temperature', { sampling: { temperature: 1e-310 } }],
    ['sampling.temperature', { sampling: { temperature: -1 } }],
    ['topLogprobs', { topLogprobs: 65 }],
    ['topLogprobs', { topLogprobs: -1 }],
  ])('%s', async (field, change) => {
    await expect(generate('refused', change)).rejects.toThrow(InvalidRequest);
    await expect(generate('refused', change)).rejects.toThrow(field);
  });
});
