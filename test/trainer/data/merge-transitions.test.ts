/** Merging by exact token prefix, against SkyRL-Agent's own function. */

import { describe, expect, test } from 'vitest';
import { mergeTransitions } from '../../../trainer/data/merge-transitions.ts';
import { readJson, vectors } from '../tiny-policy.ts';

interface MergeCase {
  readonly name: string;
  readonly transitions: ReadonlyArray<{ ob: number[]; ac: number[]; logprobs: number[] | null }>;
  readonly datums: ReadonlyArray<{
    input_tokens: number[];
    response_tokens: number[];
    response_logprobs: number[];
    response_mask: number[];
  }>;
}

const { merge } = readJson<{ merge: MergeCase[] }>(vectors, 'transitions.json');

describe('mergeTransitions', () => {
  test('the vectors are there', () => expect(merge.length).toBeGreaterThan(20));

  test.each(merge.map((c) => [c.name, c] as const))('%s', (_, { transitions, datums }) => {
    const merged = mergeTransitions(
      transitions.map(({ ob, ac, logprobs }) => ({
        observation: ob,
        action: ac,
        logprobs: logprobs ?? [],
        version: 0,
      })),
    );
    expect(merged).toEqual(
      datums.map((datum) => ({
        tokens: [...datum.input_tokens, ...datum.response_tokens],
        mask: [...datum.input_tokens.map(() => 0), ...datum.response_mask],
        logprobs: [...datum.input_tokens.map(() => 0), ...datum.response_logprobs],
      })),
    );
  });

  test('records temperatures if an action was sampled at another one than 1', () => {
    const says = (observation: number[], temperature?: number) => ({
      observation,
      action: [7, 8],
      logprobs: [-1, -2],
      version: 0,
      ...(temperature !== undefined && { temperature }),
    });
    const merged = mergeTransitions([
      says([1]),
      says([1, 7, 8, 2], 0.6),
      says([1, 7, 8, 2, 7, 8, 3], 0),
      says([4], 1),
      says([4, 7, 8]),
    ]);
    expect(merged.map(({ temperatures }) => temperatures)).toEqual([[1, 1, 1, 1, 0.6, 0.6, 1, 0, 0], undefined]);
  });

  test('takes contexts of any length', () => {
    const observation = Array.from({ length: 400_000 }, (_, i) => i % 512);
    const [merged] = mergeTransitions([{ observation, action: observation, logprobs: [], version: 0 }]);
    expect([merged?.tokens.length, merged?.mask.indexOf(1), merged?.logprobs.length]).toEqual([
      800_000, 400_000, 800_000,
    ]);
  });
});
