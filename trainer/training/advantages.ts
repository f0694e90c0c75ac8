/** Computes the advantage of each token that counts from rewards: within a rollout's group, or token by token. */

import { advantagesByGroup } from '../algorithms/advantages/within-group.ts';
import type { AdvantageSettings } from '../algorithms/advantages/estimator.ts';
import { advantageEstimators } from '../algorithms/advantages/registry.ts';
import { penaliseRewards } from '../algorithms/kl.ts';
import { normaliseAdvantages } from '../algorithms/reductions.ts';
import { startsOf, joined, ones, parted } from '../algorithms/rows.ts';
import type { Credit, Datum } from '../update-request.ts';
import type { UpdateSettings } from '../../protocol/algorithm.ts';
import type { Sample } from './sample.ts';

/** Sequences lack what their advantages are computed from. */
export class NoCredit extends Error {
  override readonly name = 'NoCredit';
}

/** A rollout with its samples in order. */
interface Rollout extends Credit {
  readonly samples: Sample[];
}

export interface Credited {
  /** One array per sample, with a number per token that counts. */
  readonly advantages: readonly Float64Array[];
  /** Targets of the critic, in the same shape; absent if the estimator returns none. */
  readonly returns?: readonly Float64Array[];
  /** The mean reward, and the KL penalty if there is one. */
  readonly metrics: Readonly<Record<string, number>>;
}

function rolloutsOf(samples: readonly Sample[]): Rollout[] {
  const rollouts = new Map<string, Rollout>();
  for (const sample of samples) {
    const { credit } = sample.datum;
    if (credit === undefined) throw new NoCredit('a sequence has neither an advantage nor a reward with its group');
    const rollout = rollouts.get(credit.rollout) ?? { ...credit, samples: [] };
    rollout.samples.push(sample);
    rollouts.set(credit.rollout, rollout);
  }
  return [...rollouts.values()];
}

const tokensOf = ({ samples }: Rollout): number => samples.reduce((sum, { count }) => sum + count, 0);

interface Rewarded {
  /** One per token, sequence by sequence. Turns' rewards are at their last tokens, the rest at the sequence's last. */
  readonly rewards: Float64Array;
  /** One per rollout, after the KL penalty. */
  readonly scores: readonly number[];
  readonly metrics: Readonly<Record<string, number>>;
}

/** Mean reward of the trained rollouts, copies included, after the KL penalty. */
const FINAL = 'loss/avg_final_rewards';
const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, x) => sum + x, 0) / Math.max(1, values.length);

/** `starts`: of the samples, rollout by rollout. Every sample is an episode with its rollout's whole reward. */
function rewardsOf(rollouts: readonly Rollout[], starts: readonly number[], kl: UpdateSettings['kl']): Rewarded {
  const plain = new Float64Array(starts.at(-1) ?? 0);
  const samples = rollouts.flatMap((rollout) => rollout.samples);
  for (const [i, { datum }] of samples.entries()) {
    const [from = 0, to = 0] = [starts[i], starts[i + 1]];
    const { reward = 0, turns = [] } = datum.credit ?? {};
    if (to === from) continue;
    let rest = reward;
    for (const [tokens, turnReward] of turns) {
      const at = Math.min(to, from + tokens) - 1;
      if (at < from) continue;
      plain[at] = (plain[at] ?? 0) + turnReward;
      rest -= turnReward;
    }
    plain[to - 1] = (plain[to - 1] ?? 0) + rest;
  }
  if (kl?.in !== 'reward') {
    const scores = rollouts.map(({ reward }) => reward);
    return { rewards: plain, scores, metrics: { [FINAL]: meanOf(scores) } };
  }
  const tokens = {
    starts,
    mask: ones(plain.length),
    logprobs: joined(samples.map(({ old }) => old)),
    reference: joined(samples.map(({ reference }) => reference ?? new Float64Array(0))),
    rewards: plain,
  };
  const { rewards, mean, max } = penaliseRewards(tokens, kl.estimator, kl.coefficient);
  let next = 0;
  const scores = rollouts.map(({ reward, samples: own }) => {
    const [from = 0, to = 0] = [starts[next], starts[next + own.length]];
    next += own.length;
    // The rollout's reward counts once, the penalty of every token.
    const total = rewards.subarray(from, to).reduce((sum, r) => sum + r, 0);
    const sequences = own.filter(({ count }) => count > 0).length;
    return sequences === 0 ? reward : total - (sequences - 1) * reward;
  });
  return {
    rewards,
    scores,
    metrics: {
      [FINAL]: meanOf(scores),
      'loss/avg_kl': mean,
      'loss/avg_kl_max': max,
      'loss/kl_loss_coef': kl.coefficient,
    },
  };
}

function valuesOf(rollouts: readonly Rollout[]): Float64Array | undefined {
  const values = rollouts.flatMap(({ samples }) => samples.flatMap((sample) => sample.values ?? []));
  return values.length === 0 ? undefined : joined(values);
}

interface Estimated {
  readonly tokens: Float64Array;
  readonly returns?: Float64Array;
  readonly metrics: Rewarded['metrics'];
}

function estimate(rollouts: readonly Rollout[], settings: UpdateSettings): Estimated {
  const { advantage: name = 'grpo', normaliseByStd = true, gamma = 1, lambd = 1 } = settings;
  const given: AdvantageSettings = { normaliseByStd, gamma, lambd };
  const estimator = advantageEstimators.get(name, settings.modules);
  const starts = startsOf(rollouts.flatMap(({ samples }) => samples.map(({ count }) => count)));
  const { rewards, scores, metrics } = rewardsOf(rollouts, starts, settings.kl);
  if (estimator.over === 'token') {
    const { advantages: tokens, returns } = estimator.estimate(
      { starts, mask: ones(rewards.length), rewards, values: valuesOf(rollouts) },
      given,
    );
    return { tokens, returns, metrics };
  }
  const groups = rollouts.map(({ group }) => group);
  const advantages = advantagesByGroup(scores, groups, (group) => estimator.estimate(group, given));
  const tokens = new Float64Array(rewards.length);
  let from = 0;
  for (const [i, rollout] of rollouts.entries()) {
    const to = from + tokensOf(rollout);
    tokens.fill(advantages[i] ?? 0, from, to);
    from = to;
  }
  return { tokens, metrics };
}

const isGiven = ({ advantage }: Datum): boolean => advantage !== undefined;

/**
 * The advantages of all samples, in their order. Samples without a token that counts are included: they are part of the
 * group's baseline. Errors: `NoCredit`, `UnknownName` for an unknown estimator, `TooFewTokens` if it whitens,
 * `NoValues` if it needs a critic's values and there are none.
 */
export function creditSamples(samples: readonly Sample[], settings: UpdateSettings): Credited {
  const finish = ({ tokens, returns, metrics }: Estimated, order: readonly Sample[]): Credited => {
    const bySample = (whole: Float64Array): Float64Array[] => {
      const parts = new Map(
        parted(
          whole,
          order.map(({ count }) => count),
        ).map((part, i) => [order[i], part]),
      );
      return samples.map((sample) => parts.get(sample) ?? new Float64Array(0));
    };
    const whole = settings.advantageBatchNormalise ? normaliseAdvantages(tokens, ones(tokens.length)) : tokens;
    return { advantages: bySample(whole), ...(returns && { returns: bySample(returns) }), metrics };
  };
  if (samples.some(({ datum }) => isGiven(datum))) {
    if (!samples.every(({ datum }) => isGiven(datum)))
      throw new NoCredit('some sequences have an advantage and some have none');
    const tokens = joined(samples.map(({ datum, count }) => new Float64Array(count).fill(datum.advantage ?? 0)));
    return finish({ tokens, metrics: {} }, samples);
  }
  const rollouts = rolloutsOf(samples);
  return finish(
    estimate(rollouts, settings),
    rollouts.flatMap((rollout) => rollout.samples),
  );
}

/** Mean, mean absolute value and standard deviation of the unscaled advantages, over the tokens that count. */
export function advantageMetrics(advantages: readonly Float64Array[]): Record<string, number> {
  let [count, sum, size, squares] = [0, 0, 0, 0];
  for (const part of advantages) {
    for (const advantage of part) {
      count += 1;
      sum += advantage;
      size += Math.abs(advantage);
      squares += advantage ** 2;
    }
  }
  if (count === 0) return {};
  const mean = sum / count;
  return {
    'loss/avg_raw_advantages': mean,
    'loss/avg_raw_advantages_abs': size / count,
    'loss/std_raw_advantages': Math.sqrt(Math.max(0, squares / count - mean ** 2)),
  };
}
