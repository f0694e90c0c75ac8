/**
 * A run on a virtual clock: the time of its mode if orchestration cost nothing. Admission and the drawing of tasks are
 * the workflow's own; they receive an end when the clock has reached it.
 */

import { StalenessGate } from '../../workflows/training/overlap/staleness-gate.ts';
import type { Unit } from '../../protocol/admission.ts';
import { drawnBy, limitsOf, unitsPerStep } from '../../workflows/training/modes.ts';
import type { OpenedConfig } from '../../protocol/run-config.ts';
import { scheduleOf } from '../../workflows/batch/dispatch-schedule.ts';
import { simulate } from '../dispatch/simulate.ts';
import { type AsyncMix, durationOf } from './mix.ts';

export interface Simulated {
  readonly makespan: number;
  /** Updates between the policy that a unit started with and the policy that was trained on it. */
  readonly staleness: { readonly mean: number; readonly max: number };
  /** The share of time in which the trainer waited. */
  readonly waited: number;
}

/** How long a unit's batch takes alone. */
function lengthOf(mix: AsyncMix, config: OpenedConfig, number: number): number {
  const { tasks } = drawnBy(config, number);
  const { samples } = config.batch;
  const times = tasks.flatMap((task) =>
    Array.from({ length: samples }, (_, k) => ({ init: 0, 'agent-run': durationOf(mix, task, k), reward: 0 })),
  );
  return Math.max(
    ...simulate({ times, tasks: tasks.length, samples }, scheduleOf(config.dispatcher)).map(({ end }) => end),
  );
}

export function simulateRun(mix: AsyncMix, config: OpenedConfig): Simulated {
  const admission = new StalenessGate(unitsPerStep(config));
  const ends: Array<{ readonly at: number; readonly unit: Unit | null }> = [];
  const ages: number[] = [];
  let [now, version, updates, busy] = [0, 0, false, 0];
  const begin = () => {
    for (const unit of admission.admit({ uri: 'file:///', version }, limitsOf(config)))
      ends.push({ at: now + lengthOf(mix, config, unit.number), unit });
    if (!updates && admission.isReady(version + 1)) {
      ages.push(...admission.take(version + 1).map(({ policy }) => version - policy.version));
      updates = true;
      busy += mix.update;
      ends.push({ at: now + mix.update, unit: null });
    }
    ends.sort((a, b) => a.at - b.at);
  };
  for (begin(); ends.length > 0; begin()) {
    const next = ends.shift();
    if (!next) break;
    now = next.at;
    if (next.unit) admission.end(next.unit.number);
    else {
      admission.trained();
      updates = false;
      version += 1;
    }
  }
  const mean = ages.reduce((sum, age) => sum + age, 0) / ages.length;
  return { makespan: now, staleness: { mean, max: Math.max(...ages) }, waited: 1 - busy / now };
}
