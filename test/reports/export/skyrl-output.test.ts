/**
 * SkyRL-Agent's own outputs, case by case. Where nobody gave log-probabilities, SkyRL writes zeros; here they are
 * `null`. Where the original crashes on a cut trajectory of several sequences, the output is whole here.
 */

import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodeTranscript, type TextMessage } from '../../../reports/export/skyrl/encode-transcript.ts';
import {
  NothingSampled,
  sequencesOf,
  type SkyrlOutput,
  skyrlOutput,
  type SkyrlTrajectory,
} from '../../../reports/export/skyrl/output.ts';
import { loadTokenizer } from '../../../trainer/tokenizer/load-tokenizer.ts';
import { readVectors, vectorsFolder } from '../../support/vectors.ts';

interface Result {
  readonly instance_id: string | number;
  readonly trajectory_id: number;
  readonly messages: readonly TextMessage[];
  readonly transitions: ReadonlyArray<{ ob: number[]; ac: number[]; logprobs: number[] | null }>;
  readonly reward: number | boolean;
  readonly finish_reason: string | null;
  readonly state: { readonly tool_profile?: Readonly<Record<string, unknown>> } | null;
}

interface Case {
  readonly name: string;
  readonly config: {
    readonly generator: {
      readonly max_prompt_length: number;
      readonly remove_think_tokens: boolean;
      readonly profile_tools: boolean;
    };
  };
  readonly results: ReadonlyArray<readonly [string | number, readonly Result[]]>;
  readonly expected?: Readonly<Record<keyof SkyrlOutput, unknown>>;
  readonly expected_error?: string;
  readonly upstream_bug?: string;
}

const { post_process: cases } = readVectors<{ readonly post_process: readonly Case[] }>('transitions.json');
const tokenizer = await loadTokenizer(join(vectorsFolder, 'models/qwen2-tiny'));

function trajectoryOf(result: Result, { generator }: Case['config']): SkyrlTrajectory {
  const { transitions, messages, reward, state } = result;
  const { tool_profile: profile } = state ?? {};
  const isEncoded = transitions.length === 0 && messages.length > 0;
  return {
    instance: String(result.instance_id),
    trajectory: result.trajectory_id,
    turns: messages.filter(({ role }) => role === 'assistant').length,
    sequences: isEncoded
      ? [encodeTranscript(messages, tokenizer, { removesReasoning: generator.remove_think_tokens })]
      : sequencesOf(
          transitions.map(({ ob, ac, logprobs }) => ({
            observation: ob,
            action: ac,
            logprobs: logprobs ?? [],
            version: 0,
          })),
        ),
    ...(isEncoded && { encoded: true }),
    reward: Number(reward),
    finishReason: result.finish_reason,
    ...(generator.profile_tools &&
      profile && {
        tools: {
          total: profile['tool_calls_total'] as number,
          byName: profile['tool_calls_by_name'] as Record<string, number>,
        },
      }),
  };
}

const outputOf = ({ results, config }: Case): SkyrlOutput =>
  skyrlOutput(
    results.flatMap(([, all]) => all.map((one) => trajectoryOf(one, config))),
    { maxResponseTokens: config.generator.max_prompt_length, fill: true },
  );

const numbers = (values: unknown) => (values as ReadonlyArray<number | boolean>).map(Number);
const named = (some: readonly Case[]) => some.map((one) => [one.name, one] as const);
const lacksLogprobs = ({ results }: Case) =>
  results.some(([, all]) => all.some(({ transitions }) => transitions.some(({ logprobs }) => logprobs === null)));

describe('the output of SkyRL-Agent', () => {
  it.each(named(cases.filter(({ expected }) => expected !== undefined)))('%s', (_name, one) => {
    const { rollout_metrics: metrics, rollout_logprobs: logprobs, ...rest } = outputOf(one);
    const { expected } = one;
    const wanted = expected as NonNullable<typeof expected>;
    expect(Object.keys(outputOf(one)).toSorted()).toEqual(Object.keys(wanted).toSorted());
    expect(rest).toEqual({
      prompt_token_ids: wanted.prompt_token_ids,
      response_ids: wanted.response_ids,
      rewards: numbers(wanted.rewards),
      traj_rewards: numbers(wanted.traj_rewards),
      loss_masks: wanted.loss_masks,
      episode_nums: wanted.episode_nums,
      is_last_episode: wanted.is_last_episode,
      traj_idx: wanted.traj_idx,
      stop_reasons: wanted.stop_reasons,
    });
    const given = wanted.rollout_logprobs as readonly unknown[];
    expect(logprobs).toEqual(given.map((row, i) => (lacksLogprobs(one) && logprobs[i] === null ? null : row)));
    if (lacksLogprobs(one)) expect(logprobs).toContain(null);
    const expectedMetrics = Object.entries(wanted.rollout_metrics as Record<string, number>);
    expect(Object.keys(metrics).toSorted()).toEqual(expectedMetrics.map(([name]) => name).toSorted());
    for (const [name, value] of expectedMetrics) expect(metrics[name], name).toBeCloseTo(value, 7);
  });

  it.each(named(cases.filter(({ expected_error: error }) => error !== undefined)))('%s', (_name, one) => {
    const isEmpty = one.results.every(([, all]) => all.every(({ messages }) => messages.length === 0));
    if (isEmpty) {
      expect(() => outputOf(one)).toThrow(NothingSampled);
      return;
    }
    const { response_ids: ids, loss_masks: masks, rollout_metrics: metrics } = outputOf(one);
    const most = one.config.generator.max_prompt_length;
    expect(masks.map(({ length }) => length)).toEqual(ids.map(({ length }) => length));
    expect(Math.max(...ids.map(({ length }) => length))).toBe(most);
    expect(metrics['rollout_metrics/context_exceed_ratio']).toBeGreaterThan(0);
  });
});

describe('what SkyRL does not do', () => {
  const plain = { instance: 'a', reward: 1, finishReason: 'FINISH_TOOL' } as const;
  const sequence = { prompt: [1], response: [2, 3], mask: [1, 1], logprobs: [-1, -2] };

  it('a trajectory without a turn is left out, and counted', () => {
    const output = skyrlOutput([
      { ...plain, trajectory: 0, turns: 1, sequences: [sequence] },
      { ...plain, trajectory: 1, turns: 0, sequences: [], reward: 0, finishReason: 'error_runtime' },
    ]);
    expect(output.traj_idx).toEqual(['a-traj0']);
    expect(output.rollout_metrics['rollout_metrics/num_empty_messages']).toBe(1);
  });

  it('a sequence has log-probabilities only if each of its calls has them', () => {
    const call = (observation: number[], action: number[], logprobs: number[]) => ({
      observation,
      action,
      logprobs,
      version: 0,
    });
    expect(sequencesOf([call([1], [2], [-1]), call([1, 2], [3], []), call([9], [8], [-4])])).toEqual([
      { prompt: [1], response: [2, 3], mask: [1, 1], logprobs: null },
      { prompt: [9], response: [8], mask: [1], logprobs: [-4] },
    ]);
  });
});
