/** What a run's TensorBoard shows: a run that has gone further has the same events, and more after them. */

import type { RolloutEvent } from '../../store/store.ts';
import type { EvaluationRecord } from '../../workflows/types.ts';
import type { RunSummary } from '../run-folder.ts';
import type { ScalarEvent } from './event.ts';

const ENDS: ReadonlySet<string> = new Set(['trained', 'masked', 'dropped', 'evaluated']);

export const secondsOf = (at: string) => Date.parse(at) / 1000;

/** When the last rollout of each batch ended, by the batch's name (`step-3`, `eval-0-sampled`); seconds since the epoch. */
function endsOfBatches(events: readonly RolloutEvent[]): Map<string, number> {
  const ends = new Map<string, number>();
  for (const { rollout, event, at } of events) {
    const batch = rollout.split('/')[2] ?? '';
    if (ENDS.has(event)) ends.set(batch, Math.max(ends.get(batch) ?? 0, secondsOf(at)));
  }
  return ends;
}

function ofStep(step: RunSummary['steps'][number]): ScalarEvent['scalars'] {
  return [
    ['reward/mean', step.rewardMean],
    ['reward/pass_rate', step.passRate],
    ['policy/loss', step.loss],
    ['policy/kl', step.kl],
    ['policy/entropy', step.entropy],
    ['policy/grad_norm', step.gradNorm],
    ['policy/learning_rate', step.learningRate],
    ['policy/logprob_drift_max', step.logprobDrift.maxAbs],
    ['timing/rollout', step.seconds.rollout],
    ['timing/train', step.seconds.train],
    ['tokens/sampled', step.sampledTokens],
    ...Object.entries(step.metrics ?? {}),
  ];
}

function ofEvaluation({ passRate, greedyPassRate }: EvaluationRecord): ScalarEvent['scalars'] {
  return [['eval/pass_rate', passRate], ...(greedyPassRate === null ? [] : [['eval/greedy_pass_rate', greedyPassRate] as const])];
}

/** In the order in which a run makes them: a step, then the evaluation after it. Times in seconds (`timing/…`). */
export function runScalars(
  { startedAt, steps, evaluation }: Pick<RunSummary, 'startedAt' | 'steps' | 'evaluation'>,
  events: readonly RolloutEvent[],
): ScalarEvent[] {
  const ends = endsOfBatches(events);
  const timeOf = (batch: string) => ends.get(batch) ?? secondsOf(startedAt);
  const made = [
    ...steps.map((one) => ({ step: one.step, wallTime: timeOf(`step-${one.step}`), scalars: ofStep(one) })),
    ...evaluation.all.map((one) => ({ step: one.step, wallTime: timeOf(`eval-${one.step}-sampled`), scalars: ofEvaluation(one) })),
  ];
  return made.sort((a, b) => a.step - b.step);
}
