/** Hunts numbers under SkyRL's names that mean something else here. */

import { expect, it } from 'vitest';
import type { GenerateRecord, OutcomeRecord } from '../../../protocol/records.ts';
import { type Member, rolloutMetrics as metricsOf } from '../../../activities/update/rollout-metrics.ts';
import { percentile, spreadOf, timeMetrics } from '../../../reports/spread.ts';

const some = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const turn = (appended: number, sampled: number, more: Partial<GenerateRecord> = {}): GenerateRecord => ({
  version: 0,
  appended: some(appended),
  reset: false,
  sampled: some(sampled),
  logprobs: [],
  end: 'stop',
  parsed: { kind: 'no-call', content: '' },
  ...more,
});
const member = (reward: number, turns: readonly GenerateRecord[], task = 't'): Member => ({
  outcome: { reward, task } as OutcomeRecord,
  turns,
});

const rolloutMetrics = (members: readonly Member[], samples: number, sources: readonly string[] = []) =>
  metricsOf(members, { samples, sources });

it("tokens are those after the first prompt, with the tools' answers; the policy's own are counted separately", () => {
  // 10 prompt, 3 sampled, 5 answered, 2 sampled: 10 after the prompt, 5 sampled; then one of 4, without tools.
  const told = rolloutMetrics([member(1, [turn(10, 3), turn(5, 2)]), member(0, [turn(10, 4)])], 2);
  expect(told).toMatchObject({
    'generate/avg_num_tokens': 7,
    'generate/min_num_tokens': 4,
    'generate/max_num_tokens': 10,
    'generate/std_num_tokens': 3,
    'generate/avg_assistant_tokens': 4.5,
    'generate/min_assistant_tokens': 4,
    'generate/max_assistant_tokens': 5,
    'generate/std_assistant_tokens': 0.5,
    'generate/avg_tokens_non_zero_rewards': 10,
    'generate/avg_tokens_zero_rewards': 4,
    'generate/tokens_per_turn_mean': 3,
    'generate/tokens_per_turn_std': Math.sqrt(2 / 3),
    'generate/tokens_per_turn_max': 4,
  });
});

it('if a template changed earlier tokens, the prompt of a new sequence is not a response', () => {
  expect(rolloutMetrics([member(1, [turn(10, 3), turn(30, 2, { reset: true }), turn(1, 1)])], 1)).toMatchObject({
    'generate/avg_num_tokens': 7,
  });
});

it('a reward below 0 is neither zero nor above it', () => {
  const told = rolloutMetrics([member(-1, [turn(1, 100)]), member(0, [turn(1, 3)]), member(1, [turn(1, 5)])], 3);
  expect(told).toMatchObject({ 'generate/avg_tokens_non_zero_rewards': 5, 'generate/avg_tokens_zero_rewards': 3 });
});

it("the model's time covers the rollouts all of whose calls reported theirs", () => {
  const cost = (queueSeconds: number, seconds: number) => ({
    cost: { queueSeconds, seconds, cachedTokens: 0, batchSize: 1 },
  });
  const told = rolloutMetrics(
    [
      member(1, [turn(1, 1, cost(1, 2)), turn(1, 1, cost(0, 3))]),
      member(0, [turn(1, 1, cost(0, 16))]),
      member(0, [turn(1, 1, cost(0, 99)), turn(1, 1)]),
    ],
    3,
  );
  expect(told).toMatchObject({
    'generate/trajectory_time_llm_mean': 11,
    'generate/trajectory_time_llm_p90': 15,
    'generate/trajectory_time_llm_max': 16,
  });
  expect(Object.keys(rolloutMetrics([member(0, [turn(1, 1)])], 1)).filter((name) => name.includes('time'))).toEqual([]);
});

it("percentiles lie between the two nearest values, as NumPy's do", () => {
  expect([percentile([4, 1, 2, 3], 0.5), percentile([3], 0.9), percentile([], 0.9), percentile([0, 10], 0.25)]).toEqual(
    [2.5, 3, 0, 2.5],
  );
  expect(spreadOf([])).toEqual({ mean: 0, min: 0, max: 0, std: 0 });
  expect(timeMetrics('t', [])).toEqual({});
});

it('parts of the reward and metrics of the environment are means over the rollouts that have them', () => {
  const graded = (more: Partial<OutcomeRecord>): Member => ({
    outcome: { ...member(1, []).outcome, ...more },
    turns: [],
  });
  const told = rolloutMetrics(
    [
      graded({ parts: { format: 1, outcome: 0 }, metrics: { guesses: 3 } }),
      graded({ parts: { format: 0, outcome: 0 } }),
      graded({}),
    ],
    3,
  );
  expect(told).toMatchObject({ 'reward/parts/format': 0.5, 'reward/parts/outcome': 0, 'environment/guesses': 3 });
});

it('scores are given by source if there are several, also where one name begins with another', () => {
  const members = [
    member(1, [], 'math-train-0'),
    member(0, [], 'math-train-0'),
    member(0.25, [], 'math-hard-train-0'),
    member(0.75, [], 'math-hard-train-1'),
  ];
  expect(rolloutMetrics(members, 2, ['math', 'math-hard'])).toMatchObject({
    'source/math/avg_raw_reward': 0.5,
    'source/math/avg_pass_at_2': 1,
    'source/math-hard/avg_raw_reward': 0.5,
  });
  expect(Object.keys(rolloutMetrics(members, 2, ['math'])).filter((name) => name.startsWith('source/'))).toEqual([]);
});
