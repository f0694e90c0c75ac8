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

  test('continues the last of equal sequences, as SkyRL does', () => {
    const says = (observation: number[], logprob: number) => ({
      observation,
      action: [7],
      logprobs: [logprob],
      version: 0,
    });
    const merged = mergeTransitions([says([1], -1), says([1], -2), says([1, 7, 2], -3)]);
    expect(merged.map(({ logprobs }) => logprobs)).toEqual([
      [0, -1],
      [0, -2, 0, -3],
    ]);
  });

  test('takes contexts of any length', () => {
    const observation = Array.from({ length: 400_000 }, (_, i) => i % 512);
    const [merged] = mergeTransitions([{ observation, action: observation, logprobs: [], version: 0 }]);
    expect([merged?.tokens.length, merged?.mask.indexOf(1), merged?.logprobs.length]).toEqual([
      800_000, 400_000, 800_000,
    ]);
  });

  test('continues the sequence that the observation begins with, whichever agent was last', () => {
    const said = (observation: number[], action: number[], reward?: number) => ({
      observation,
      action,
      logprobs: action.map(() => -1),
      version: 0,
      ...(reward !== undefined && { reward }),
    });
    const merged = mergeTransitions([
      said([1], [2], 0.5),
      said([5], [6]),
      said([5, 6, 7], [8, 8]),
      said([1, 2, 3], [4, 4], 0.25),
      said([5, 6, 7, 8, 9], [9]),
    ]);
    expect(merged.map(({ tokens, mask }) => [tokens, mask])).toEqual([
      [
        [1, 2, 3, 4, 4],
        [0, 1, 0, 1, 1],
      ],
      [
        [5, 6, 7, 8, 8],
        [0, 1, 0, 1, 1],
      ],
      [
        [5, 6, 7, 8, 9, 9],
        [0, 0, 0, 0, 0, 1],
      ],
    ]);
    expect(merged.map(({ rewards }) => rewards)).toEqual([
      [
        [1, 0.5],
        [3, 0.25],
      ],
      undefined,
      undefined,
    ]);
  });

  test('prefers the longest of several sequences', () => {
    const said = (observation: number[], action: number[]) => ({ observation, action, logprobs: [-1], version: 0 });
    const merged = mergeTransitions([said([1], [2]), said([1], [3]), said([1, 2, 4], [5]), said([1, 2, 4, 5], [6])]);
    expect(merged.map(({ tokens }) => tokens)).toEqual([
      [1, 2, 4, 5, 6],
      [1, 3],
    ]);
  });
});
