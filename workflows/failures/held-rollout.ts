/**
 * A rollout whose activity failed with a class that the failure table holds: the rollout waits, its parents pause and
 * show why, and each notifies its own parent. When it is resumed, the activity has new attempts.
 */

import { defineSignal, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import type { Failure } from '../../protocol/finish-reason.ts';
import type { LoopState } from '../rollout/rollout-loop.ts';
import type { Trip } from '../../protocol/breaker.ts';

/** To the parent: this child is held until it is resumed; it had received `resumed` resume signals before. */
export const rolloutHeldSignal = defineSignal<RolloutHeld>('rolloutHeld');
export type RolloutHeld = [rollout: string, trip: Trip, resumed: number];

const WORK: Readonly<Partial<Record<LoopState['phase'], string>>> = {
  prepare: 'the sandbox',
  restore: 'the replacement of a lost sandbox',
  collect: 'the collection',
  grade: 'the grading',
};

function workOf({ phase, turn }: LoopState): string {
  return WORK[phase] ?? `${phase === 'generate' ? 'the sampling' : 'the tool calls'} of turn ${turn}`;
}

/** The trip of `rollout`, which failed with `failure` in `state`. */
export function heldTrip(failure: Failure, state: LoopState, rollout: string): Trip {
  return { ...failure, failed: 1, of: 1, work: `${workOf(state)} of ${rollout}` };
}

/** `resumed`: how often the rollout was resumed so far. If the parent has ended, the rollout is held without it. */
export async function reportHeld(trip: Trip, resumed: number): Promise<void> {
  const { parent, workflowId } = workflowInfo();
  if (!parent) return;
  await getExternalWorkflowHandle(parent.workflowId)
    .signal(rolloutHeldSignal, workflowId, trip, resumed)
    .catch(() => undefined);
}
