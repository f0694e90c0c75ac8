/** The mathematics and the answers of SkyRL-Gym (`gym.json`), case by case. */

import { expect, test } from 'vitest';
import { skyrlAnswer, skyrlReward, type Method } from '../../../tasks/math/gsm8k-answer.ts';
import { gsm8k } from '../../../tasks/math/gsm8k.ts';
import { gsm8kMultiTurn, multiTurnStep, turnsOf } from '../../../tasks/math/gsm8k-multi-turn.ts';
import { minervaVerdict, strictBoxVerdict } from '../../../tasks/math/minerva.ts';
import { normalizedAnswer, skyrlExactMatch, skyrlSubMatch } from '../../../tasks/qa/answer-match.ts';
import { defaultAggregate, multiTurnAggregate } from '../../../tasks/skyrl-metrics.ts';
import { readVectors } from '../../support/vectors.ts';
import { answered, openedWith, workOf } from '../support/answered.ts';

interface Step {
  readonly observations: ReadonlyArray<{ readonly role: string; readonly kind?: string }>;
  readonly reward: number;
  readonly done: boolean;
  readonly metadata: Readonly<Record<string, unknown>>;
}
interface Episode {
  readonly extras: Readonly<Record<string, unknown>> & { readonly reward_spec: { readonly ground_truth: string } };
  readonly actions: readonly string[];
  readonly steps: readonly Step[];
  readonly metrics?: { readonly steps: number };
  readonly expected_error?: { readonly key: string };
}
interface Aggregate {
  readonly metrics: ReadonlyArray<Readonly<Record<string, unknown>>>;
  readonly expected: Readonly<Record<string, number>>;
}
interface BoxCase {
  readonly solution: string;
  readonly ground_truth: string;
  readonly expected: { readonly score: number; readonly acc: boolean; readonly pred: string | null };
}
interface Gym {
  readonly gsm8k_reward: ReadonlyArray<{
    readonly method: Method;
    readonly solution: string;
    readonly ground_truth: string;
    readonly format_score: number;
    readonly score: number;
    readonly expected_answer: string | null;
    readonly expected_score: number;
  }>;
  readonly gsm8k_env: readonly Episode[];
  readonly gsm8k_multi_turn: readonly Episode[];
  readonly gsm8k_multi_turn_aggregate: Aggregate & { readonly empty: Readonly<Record<string, number>> };
  readonly default_aggregate_metrics: Aggregate;
  readonly aime: ReadonlyArray<{ readonly action: string; readonly ground_truth: string; readonly expected: Step }>;
  readonly aime_strict_box: readonly BoxCase[];
  readonly em_normalize: ReadonlyArray<{
    readonly prediction: string;
    readonly golden: string;
    readonly normalized: string;
    readonly em: number;
    readonly subem: number;
  }>;
}

const gym = readVectors<Gym>('gym.json');
const titled = <Case>(cases: readonly Case[]): Array<[string, Case]> => cases.map((one, n) => [`case ${n}`, one]);

test.each(titled(gym.gsm8k_reward))('gsm8k_reward, %s', (_, one) => {
  expect(skyrlAnswer(one.solution, one.method)).toBe(one.expected_answer);
  const scores = { score: one.score, formatScore: one.format_score };
  expect(skyrlReward(one.solution, one.ground_truth, one.method, scores)).toBe(one.expected_score);
});

test.each(titled(gym.gsm8k_env))('gsm8k_env, %s', async (_, { extras, actions, steps }) => {
  const record = { prompt: [{ role: 'user', content: 'How many?' }], ...extras };
  const task = await openedWith(gsm8k, [record], { verdict: 'skyrl' });
  expect('step' in task).toBe(false);
  expect(await answered(task, actions[0] ?? '')).toMatchObject({ code: 'graded', reward: steps[0]?.reward });
});

const grading = { verdict: 'skyrl', method: 'strict' } as const;

test.each(titled(gym.gsm8k_multi_turn))('gsm8k_multi_turn, %s', async (_, episode) => {
  const { extras, actions, steps, metrics, expected_error } = episode;
  if (expected_error !== undefined) {
    expect(() => turnsOf(extras)).toThrow(new RegExp(expected_error.key));
    return;
  }
  const number = { text: extras.reward_spec.ground_truth, value: { top: 0n, bottom: 1n } };
  const played = actions
    .slice(0, steps.length)
    .map((action, i) => multiTurnStep(action, number, grading, i + 1, turnsOf(extras)));
  expect(
    played.map(({ reward, done, feedback }) => ({
      observations: feedback === undefined ? [] : [{ role: 'user', kind: feedback }],
      reward,
      done,
      metadata: {},
    })),
  ).toEqual(steps);

  // The environment plays it in the same way.
  const task = await openedWith(gsm8kMultiTurn, [{ question: 'How many?', ...extras }], grading);
  const ctx = {} as Parameters<NonNullable<typeof task.step>>[0];
  let state = (await task.start?.(ctx))?.state;
  const turnRewards: number[] = [];
  for (const action of actions.slice(0, steps.length)) {
    const after = await task.step?.(ctx, state, action);
    state = after?.state;
    turnRewards.push(after?.reward ?? Number.NaN);
    expect(after?.messages.map(({ role }) => role)).toEqual(
      steps[turnRewards.length - 1]?.observations.map(({ role }) => role),
    );
    expect(after?.done).toBe(steps[turnRewards.length - 1]?.done);
  }
  expect(turnRewards).toEqual(steps.map(({ reward }) => reward));
  const verdict = await task.grade(ctx, workOf('', { state, turnRewards }));
  expect(verdict).toMatchObject({
    reward: expect.closeTo(steps.reduce((sum, { reward }) => sum + reward, 0)),
    metrics: { avg_steps: metrics?.steps },
  });
});

test('gsm8k_multi_turn_aggregate', () => {
  const { metrics, expected, empty } = gym.gsm8k_multi_turn_aggregate;
  const mean = expected['avg_steps'] ?? Number.NaN;
  // The mean of whole numbers, times their count, is whole. If the expected one is not, the list is cut off: it is the
  // beginning of the steps of gsm8k_multi_turn, whose next episodes are taken until it can be.
  const steps = gym.gsm8k_multi_turn.flatMap((episode) => episode.metrics ?? []);
  const isWhole = (count: number): boolean => Math.abs(mean * count - Math.round(mean * count)) < 1e-9;
  let counted: ReadonlyArray<Readonly<Record<string, unknown>>> = metrics;
  while (!isWhole(counted.length) && counted.length < steps.length) {
    expect(steps.slice(0, counted.length)).toEqual(counted);
    counted = steps.slice(0, counted.length + 1);
  }
  expect(multiTurnAggregate(counted)).toEqual({ avg_steps: expect.closeTo(mean, 9) });
  expect(multiTurnAggregate([])).toEqual(empty);
});

test('default_aggregate_metrics', () => {
  const { metrics, expected } = gym.default_aggregate_metrics;
  expect(defaultAggregate(metrics)).toEqual(expected);
});

test.each(titled(gym.aime))('aime, %s', (_, { action, ground_truth, expected }) => {
  const { passed, said } = minervaVerdict(action, ground_truth);
  expect({ acc: passed, pred: said, reward: passed ? 1 : -1 }).toEqual({
    ...expected.metadata,
    reward: expected.reward,
  });
});

test.each(titled(gym.aime_strict_box))('aime_strict_box, %s', (_, { solution, ground_truth, expected }) => {
  const { passed, said } = strictBoxVerdict(solution, ground_truth);
  expect({ acc: passed, pred: said, score: passed ? 1 : -1 }).toEqual(expected);
});

test.each(titled(gym.em_normalize))('em_normalize, %s', (_, { prediction, golden, normalized, em, subem }) => {
  expect(normalizedAnswer(prediction)).toBe(normalized);
  expect(Number(skyrlExactMatch(prediction, [golden]))).toBe(em);
  expect(Number(skyrlSubMatch(prediction, [golden]))).toBe(subem);
});
