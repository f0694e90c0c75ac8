/**
 * A rollout whose activity failed in a way that the table holds: it stands still, its parents pause and say why, and each
 * hands the word on to its own parent. Who resumes it gives it new tries.
 */

import { defineSignal, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import type { Failure } from '../../protocol/finish-reason.ts';
import type { LoopState } from '../rollout/rollout-loop.ts';
import type { Trip } from '../../protocol/breaker.ts';

/** To the parent: this child stands still until it is resumed; it has heard so many resumptions before. */
export const rolloutHeldSignal = defineSignal<RolloutHeld>('rolloutHeld');
export type RolloutHeld = [rollout: string, trip: Trip, resumed: number];

const WORK: Readonly<Partial<Record<LoopState['phase'], string>>> = {
  prepare: 'the sandbox',
  restore: 'the sandbox in place of a lost one',
  collect: 'the collection',
  grade: 'the grading',
};

function workOf({ phase, turn }: LoopState): string {
  return WORK[phase] ?? `${phase === 'generate' ? 'the sampling' : 'the tool calls'} of turn ${turn}`;
}

/** What is said of `rollout`, which failed so in `state`. */
export function heldTrip(failure: Failure, state: LoopState, rollout: string): Trip {
  return { ...failure, failed: 1, of: 1, work: `${workOf(state)} of ${rollout}` };
}

/** `resumed`: how often it was so far. A parent that has ended pauses nothing: the rollout stands still all the same. */
export async function reportHeld(trip: Trip, resumed: number): Promise<void> {
  const { parent, workflowId } = workflowInfo();
  if (!parent) return;
  await getExternalWorkflowHandle(parent.workflowId)
    .signal(rolloutHeldSignal, workflowId, trip, resumed)
    .catch(() => undefined);
}
