/** The metrics of an evaluation under SkyRL's names. */

import { generatorMetrics } from '../../trainer/algorithms/generator-metrics.ts';
import type { EvaluationRecord } from '../../protocol/step-record.ts';

/** Scores from the rewards of the graded sampled rollouts. `undefined` without rewards. */
export function scoresOf(rewards: readonly number[]): EvaluationRecord['scores'] {
  if (rewards.length === 0) return undefined;
  const { avgScore, passAtN, meanPositiveReward } = generatorMetrics(
    rewards,
    rewards.map((_, i) => String(i)),
  );
  return { avgScore, passAt1: passAtN, meanPositiveReward };
}

/** Empty if no rollout was graded. */
export function evaluationMetrics({ scores }: Pick<EvaluationRecord, 'scores'>): Record<string, number> {
  if (scores === undefined) return {};
  return {
    'eval/all/avg_score': scores.avgScore,
    'eval/all/pass_at_1': scores.passAt1,
    'eval/all/mean_positive_reward': scores.meanPositiveReward,
  };
}
