/**
 * Trajectories as the output of SkyRL-Agent: its eleven keys, its list of masked finish reasons, its metrics. Every
 * sequence has as many mask values as tokens, and log-probabilities that nobody gave are `null`, never 0.
 */

import { mergeTransitions, type Transition } from '../../../trainer/data/merge-transitions.ts';
import { rolloutMetrics, type ToolProfile } from './metrics.ts';

/** Sequences of trajectories that end so have loss mask 0. */
export const MASKED_REASONS: ReadonlySet<string | null> = new Set([
  'CONTEXT_WINDOW_EXCEEDED',
  'error_runtime',
  'error_evaluation',
  'max_iterations_reached',
  'BAD_LLM_RESPONSE',
  'stuck_in_a_loop',
  'cmd_timeout',
]);

/** A trajectory's tokens of one context. `logprobs`: as long as `response`, 0 on what was not sampled. */
export interface SkyrlSequence {
  readonly prompt: readonly number[];
  readonly response: readonly number[];
  /** 1 for each sampled token of the response. */
  readonly mask: readonly number[];
  readonly logprobs: readonly number[] | null;
  /** Rewards of single turns, as [sampled tokens up to the turn's end, reward]. Absent: the environment gave none. */
  readonly turnRewards?: ReadonlyArray<readonly [tokens: number, reward: number]>;
}

export interface SkyrlTrajectory {
  /** Names its group. */
  readonly instance: string;
  /** Its number in the group. */
  readonly trajectory: string | number;
  /** Messages of the assistant. 0: nothing was sampled, and there is nothing to train on. */
  readonly turns: number;
  readonly sequences: readonly SkyrlSequence[];
  /** True if the sequences were encoded from messages: SkyRL masks one of those that is cut. */
  readonly encoded?: boolean;
  readonly reward: number;
  readonly finishReason: string | null;
  /** True: it has loss mask 0, whatever its finish reason is. */
  readonly masked?: boolean;
  /** Absent: its tool calls were not counted. */
  readonly tools?: ToolProfile;
  /** The reward of the trajectory without a turn that this copy stands for. Absent: it is no copy. */
  readonly standsFor?: { readonly reward: number };
}

export interface SkyrlOutput {
  readonly prompt_token_ids: ReadonlyArray<readonly number[]>;
  readonly response_ids: ReadonlyArray<readonly number[]>;
  /**
   * Of each sequence: its trajectory's. If a turn in the output has a reward of its own: of each token of each
   * response.
   */
  readonly rewards: readonly number[] | ReadonlyArray<readonly number[]>;
  readonly traj_rewards: readonly number[];
  readonly loss_masks: ReadonlyArray<readonly number[]>;
  /** Sequences of each trajectory. */
  readonly episode_nums: readonly number[];
  readonly is_last_episode: readonly boolean[];
  readonly traj_idx: readonly string[];
  readonly stop_reasons: readonly null[];
  readonly rollout_logprobs: ReadonlyArray<readonly number[] | null>;
  readonly rollout_metrics: Readonly<Record<string, number>>;
}

export interface OutputSettings {
  /** Tokens of a response, at most; the rest is cut off. Absent: no limit. */
  readonly maxResponseTokens?: number;
  /**
   * A trajectory without a turn gets a masked copy of another one of its group, as in SkyRL, so that all groups keep
   * their size. Without: it is left out.
   */
  readonly fill?: boolean;
}

/** No trajectory has a turn. */
export class NothingSampled extends Error {
  override readonly name = 'NothingSampled';
  constructor() {
    super('no trajectory has a turn of the policy, so there is nothing to copy in place of the empty ones');
  }
}

/** Model calls as sequences. A call's log-probabilities count if there is one for each of its tokens. */
export function sequencesOf(transitions: readonly Transition[]): SkyrlSequence[] {
  const given = transitions.map((one) => ({
    ...one,
    logprobs: completeLogprobs(one) ?? one.action.map(() => Number.NaN),
  }));
  return mergeTransitions(given).map(({ tokens, mask, logprobs, rewards }) => {
    const first = mask.indexOf(1);
    const begin = first < 0 ? tokens.length : first;
    const own = logprobs.slice(begin);
    return {
      prompt: tokens.slice(0, begin),
      response: tokens.slice(begin),
      mask: mask.slice(begin),
      logprobs: own.some(Number.isNaN) ? null : own,
      ...(rewards && { turnRewards: rewards }),
    };
  });
}

/**
 * The reward of each token of the response: a turn's at its last token, what is left of `reward` at the last sampled
 * one, as in training. They add up to `reward`, also if turns at the end were cut off.
 */
export function tokenRewards(
  { mask, turnRewards = [] }: Pick<SkyrlSequence, 'mask' | 'turnRewards'>,
  reward: number,
): number[] {
  const rewards = mask.map(() => 0);
  const sampled = mask.flatMap((value, i) => (value === 1 ? [i] : []));
  const give = (at: number | undefined, some: number): void => {
    if (at !== undefined && rewards.length > 0) rewards[at] = (rewards[at] ?? 0) + some;
  };
  let rest = reward;
  for (const [tokens, some] of turnRewards) {
    const at = sampled[tokens - 1];
    if (at === undefined) continue;
    give(at, some);
    rest -= some;
  }
  give(sampled.at(-1) ?? mask.length - 1, rest);
  return rewards;
}

const completeLogprobs = ({ action, logprobs }: Transition): readonly number[] | undefined =>
  logprobs.length === action.length ? logprobs : undefined;

/**
 * A masked copy stands for each trajectory without a turn: of one of its group, else of the first whole group. Errors:
 * `NothingSampled`.
 */
export function filled(trajectories: readonly SkyrlTrajectory[]): SkyrlTrajectory[] {
  const groups = Map.groupBy(trajectories, ({ instance }) => instance);
  const whole = [...groups.values()].find((group) => group.every(({ turns }) => turns > 0));
  return trajectories.map((one) => {
    if (one.turns > 0) return one;
    const group = groups.get(one.instance) ?? [];
    const sibling = group.find(({ turns }) => turns > 0) ?? whole?.[group.indexOf(one) % whole.length];
    if (sibling === undefined) throw new NothingSampled();
    return { ...sibling, finishReason: 'error_runtime', standsFor: { reward: one.reward } };
  });
}

/** The sequence without what comes before its first sampled token, and without what is too long. */
function cut({ prompt, response, mask, logprobs, turnRewards }: SkyrlSequence, most: number): SkyrlSequence {
  const first = mask.indexOf(1);
  const begin = first < 0 ? mask.length : first;
  const end = begin + most;
  return {
    prompt,
    response: response.slice(begin, end),
    mask: mask.slice(begin, end),
    logprobs: logprobs && logprobs.slice(begin, end),
    ...(turnRewards && { turnRewards }),
  };
}

interface Ended extends SkyrlTrajectory {
  readonly cut: readonly SkyrlSequence[];
  /** With `CONTEXT_WINDOW_EXCEEDED` for one of which a sequence was cut. */
  readonly reason: string | null;
  readonly isMasked: boolean;
}

function endedOf(one: SkyrlTrajectory, most: number): Ended {
  const { sequences, finishReason, encoded = false, masked = false } = one;
  const short = sequences.map((sequence) => cut(sequence, most));
  const isCut = sequences.some(({ mask }) => mask.length - Math.max(0, mask.indexOf(1)) > most);
  const reason = isCut && !MASKED_REASONS.has(finishReason) ? 'CONTEXT_WINDOW_EXCEEDED' : finishReason;
  return { ...one, cut: short, reason, isMasked: masked || MASKED_REASONS.has(encoded ? reason : finishReason) };
}

/**
 * The output for some groups. A cut response of sampled ids stays trained, as in SkyRL; its trajectory counts as
 * `CONTEXT_WINDOW_EXCEEDED`. Errors: `NothingSampled`.
 */
export function skyrlOutput(trajectories: readonly SkyrlTrajectory[], settings: OutputSettings = {}): SkyrlOutput {
  const { maxResponseTokens = Number.POSITIVE_INFINITY, fill = false } = settings;
  const kept = fill ? filled(trajectories) : trajectories.filter(({ turns }) => turns > 0);
  const ended = kept.map((one) => endedOf(one, maxResponseTokens));
  const rows = ended.flatMap(({ cut: sequences, isMasked, instance, trajectory, reward, encoded }) =>
    sequences.map((sequence, i) => ({
      ...sequence,
      tokenRewards: () => tokenRewards(sequence, reward),
      mask: isMasked ? sequence.mask.map(() => 0) : sequence.mask,
      reward,
      name: `${instance}-traj${trajectory}`,
      isLast: i === sequences.length - 1,
      encoded: encoded ?? false,
    })),
  );
  // SkyRL has no episodes where it encodes messages.
  const hasEpisodes = rows.some(({ encoded }) => !encoded);
  // Either form, never both: SkyRL looks at the first one.
  const byToken = rows.some(({ turnRewards }) => turnRewards !== undefined);
  return {
    prompt_token_ids: rows.map(({ prompt }) => prompt),
    response_ids: rows.map(({ response }) => response),
    rewards: byToken ? rows.map((row) => row.tokenRewards()) : rows.map(({ reward }) => reward),
    traj_rewards: ended.map(({ reward }) => reward),
    loss_masks: rows.map(({ mask }) => mask),
    episode_nums: hasEpisodes ? ended.map(({ cut: sequences }) => sequences.length) : [],
    is_last_episode: hasEpisodes ? rows.map(({ isLast }) => isLast) : [],
    traj_idx: hasEpisodes ? rows.map(({ name }) => name) : [],
    stop_reasons: rows.map(() => null),
    rollout_logprobs: rows.map(({ logprobs }) => logprobs),
    rollout_metrics: rolloutMetrics(
      ended,
      rows.map(({ mask }) => mask),
      trajectories.map(({ turns, reward, standsFor }) => (standsFor ? { turns: 0, ...standsFor } : { turns, reward })),
    ),
  };
}
