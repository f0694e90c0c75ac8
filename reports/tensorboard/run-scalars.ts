/** The scalar events of a run's TensorBoard file. A later call has the same events, and more after them. */

import type { EvaluationRecord, Staleness } from '../../protocol/step-record.ts';
import { evaluationMetrics } from '../evaluation/evaluation-metrics.ts';
import { batchesOf } from '../../protocol/records.ts';
import type { RunSummary } from '../run-summary.ts';
import type { ScalarEvent } from './event-file.ts';

export const secondsOf = (at: string) => Date.parse(at) / 1000;

function stalenessScalars({ mean, max, offPolicy }: Staleness): ScalarEvent['scalars'] {
  return [
    ['staleness/mean', mean],
    ['staleness/max', max],
    ['staleness/off_policy', offPolicy],
  ];
}

function ofStep(step: RunSummary['steps'][number]): ScalarEvent['scalars'] {
  const recorded: ScalarEvent['scalars'] = [
    ['reward/mean', step.rewardMean],
    ['reward/pass_rate', step.passRate],
    ['policy/loss', step.loss],
    ['policy/kl', step.kl],
    ['policy/entropy', step.entropy],
    ['policy/grad_norm', step.gradNorm],
    ['policy/learning_rate', step.learningRate],
    ['policy/logprob_drift_max', step.logprobDrift.maxAbs],
    ...(step.clipFraction === undefined ? [] : [['policy/clip_fraction', step.clipFraction] as const]),
    ...(step.staleness ? stalenessScalars(step.staleness) : []),
    ['timing/rollout', step.seconds.rollout],
    ['timing/train', step.seconds.train],
    ['tokens/sampled', step.sampledTokens],
  ];
  // Some metrics have the same name: each name is shown once.
  return [...new Map([...recorded, ...Object.entries(step.metrics ?? {})])];
}

function ofEvaluation(evaluation: EvaluationRecord): ScalarEvent['scalars'] {
  const { passRate, greedyPassRate } = evaluation;
  const greedy = greedyPassRate === null ? [] : [['eval/greedy_pass_rate', greedyPassRate] as const];
  return [['eval/pass_rate', passRate], ...greedy, ...Object.entries(evaluationMetrics(evaluation))];
}

/** In the run's order: a step, then the evaluation after it. `timing/…` is in seconds. */
export function runScalars(
  { startedAt, steps, evaluation }: Pick<RunSummary, 'startedAt' | 'steps' | 'evaluation'>,
  batchEnds: ReadonlyMap<string, number>,
): ScalarEvent[] {
  const timeOf = (...batches: readonly string[]) =>
    Math.max(...batches.map((batch) => batchEnds.get(batch) ?? secondsOf(startedAt)));
  const made = [
    ...steps.map((one) => ({ step: one.step, wallTime: timeOf(...batchesOf(one)), scalars: ofStep(one) })),
    ...evaluation.all.map((one) => ({
      step: one.step,
      wallTime: timeOf(`eval-${one.step}-sampled`),
      scalars: ofEvaluation(one),
    })),
  ];
  return made.sort((a, b) => a.step - b.step);
}
