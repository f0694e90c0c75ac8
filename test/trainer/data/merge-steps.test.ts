/** Merging a trajectory's steps by exact prefix, against SkyRL-train's own function. */

import { describe, expect, test } from 'vitest';
import { mergeSteps, type Step } from '../../../trainer/data/merge-steps.ts';
import { readJson, vectors } from '../tiny-policy.ts';

interface Columns {
  readonly prompt_token_ids: number[][];
  readonly response_ids: number[][];
  readonly rewards: Array<number | number[]>;
  readonly loss_masks: number[][];
  readonly stop_reasons: string[];
  readonly rollout_logprobs: number[][] | null;
  readonly trajectory_ids: Array<[string, number]>;
  readonly is_last_step: boolean[];
}

const { stepwise_merge: cases = [] } = readJson<{
  stepwise_merge?: Array<{ name: string; input: Columns; expected: Columns }>;
}>(vectors, 'transitions.json');

const stepsOf = (columns: Columns): Step[] =>
  columns.prompt_token_ids.map((prompt, i) => ({
    trajectory: columns.trajectory_ids[i]!.join('/'),
    prompt,
    response: columns.response_ids[i]!,
    mask: columns.loss_masks[i]!,
    reward: columns.rewards[i]!,
    ...(columns.rollout_logprobs && { logprobs: columns.rollout_logprobs[i]! }),
    stopReason: columns.stop_reasons[i]!,
    isLast: columns.is_last_step[i]!,
  }));

const step = (prompt: number[], response: number[], reward: number | number[], isLast = false): Step => ({
  trajectory: 'a',
  prompt,
  response,
  mask: response.map(() => 1),
  reward,
  stopReason: 'stop',
  isLast,
});

test("of whole steps' rewards the last one counts; rewards of tokens keep their places", () => {
  const merged = (...rewards: Array<number | number[]>) =>
    mergeSteps([
      step([1], [2], rewards[0]!),
      step([1, 2, 3], [4], rewards[1]!),
      step([1, 2, 3, 4], [5], rewards[2]!, true),
    ]).map(({ reward }) => reward);
  expect(merged(0.25, 0.5, 1)).toEqual([1]);
  expect(merged(1, 1, 0)).toEqual([0]);
  expect(merged([0.25], [0.5], [1])).toEqual([[0.25, 0, 0.5, 1]]);
});

describe('mergeSteps', () => {
  if (cases.length === 0) test.skip('transitions.json has no stepwise_merge', () => undefined);
  for (const { name, input, expected } of cases) {
    test(name, () =>
      expect(mergeSteps(stepsOf(input)), `transitions.json stepwise_merge ${name}`).toEqual(stepsOf(expected)),
    );
  }
});
