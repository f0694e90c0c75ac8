/** An evaluation by SkyRL's names. */

import { generatorMetrics } from '../../trainer/algorithms/generator-metrics.ts';
import type { EvaluationRecord } from '../../protocol/step-record.ts';

/** Of the sampled rollouts that were graded: what failed has no reward. `undefined` where none was. */
export function scoresOf(rewards: readonly number[]): EvaluationRecord['scores'] {
  if (rewards.length === 0) return undefined;
  const { avgScore, passAtN, meanPositiveReward } = generatorMetrics(
    rewards,
    rewards.map((_, i) => String(i)),
  );
  return { avgScore, passAt1: passAtN, meanPositiveReward };
}

/** Nothing where nothing was graded. */
export function evaluationMetrics({ scores }: Pick<EvaluationRecord, 'scores'>): Record<string, number> {
  if (scores === undefined) return {};
  return {
    'eval/all/avg_score': scores.avgScore,
    'eval/all/pass_at_1': scores.passAt1,
    'eval/all/mean_positive_reward': scores.meanPositiveReward,
  };
}
