/**
 * Learning-rate schedules: linear warm-up, then constant, or falling to a fraction of the rate. Does not load the
 * engine.
 */

import type { RateSchedule } from '../protocol/algorithm.ts';

/** The rate of `step`, counted from 0, of `steps`. After the last step it stays at its final value. */
export function learningRateAt(
  { learningRate, warmup, schedule, finalRate = 0 }: RateSchedule,
  step: number,
  steps: number,
): number {
  if (step < warmup) return (learningRate * (step + 1)) / warmup;
  const done = Math.min(1, (step - warmup) / Math.max(1, steps - warmup));
  const left = { constant: 1, linear: 1 - done, cosine: (1 + Math.cos(Math.PI * done)) / 2 }[schedule];
  return learningRate * (schedule === 'constant' ? 1 : finalRate + (1 - finalRate) * left);
}
