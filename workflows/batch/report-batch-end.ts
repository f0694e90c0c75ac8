/**
 * A unit of an overlapping run is a batch that outlives the run's history: it reports its end by a signal to the run's
 * current execution. A unit that is terminated reports nothing.
 */

import {
  CancellationScope,
  ContinueAsNew,
  defineSignal,
  getExternalWorkflowHandle,
  isCancellation,
  rootCause,
  workflowInfo,
} from '@temporalio/workflow';
import type { BatchInput, BatchResult } from '../../protocol/batch.ts';
import type { Failure } from '../../protocol/finish-reason.ts';
import { mendable } from '../failures/mendable.ts';
import type { BatchEnds } from '../failures/run-failures.ts';

/** `number`: the unit's number. */
export type UnitReport =
  | { readonly number: number; readonly end: 'rolled-out'; readonly ends: BatchEnds }
  | {
      readonly number: number;
      readonly end: 'cancelled' | 'failed';
      readonly message: string;
      /** Present if the unit may succeed when it is started again. */
      readonly mendable?: Failure;
    };

/** To the run. */
export const unitEndedSignal = defineSignal<[UnitReport]>('unitEnded');

function rolledOut(number: number, { rollouts, said, ends }: BatchResult): UnitReport {
  return { number, end: 'rolled-out', ends: { rollouts, ...(said && { said }), ...(ends && { ends }) } };
}

function notRolledOut(number: number, error: unknown): UnitReport {
  const message = (rootCause(error) ?? String(error)).slice(0, 300);
  if (isCancellation(error)) return { number, end: 'cancelled', message, mendable: { failure: 'cancelled', message } };
  const failure = mendable(error);
  return { number, end: 'failed', message, ...(failure && { mendable: failure }) };
}

async function report(said: UnitReport): Promise<void> {
  const { parent } = workflowInfo();
  if (!parent) return;
  // A run that has ended waits for no unit.
  await CancellationScope.nonCancellable(() =>
    getExternalWorkflowHandle(parent.workflowId).signal(unitEndedSignal, said),
  ).catch(() => undefined);
}

/** Does `work`, and reports how it ended if the batch is a unit. A new history of the batch is not an end. */
export async function reportingBatchEnd(
  unit: BatchInput['unit'],
  work: () => Promise<BatchResult>,
): Promise<BatchResult> {
  if (unit === undefined) return work();
  try {
    const result = await work();
    await report(rolledOut(unit, result));
    return result;
  } catch (error) {
    if (!(error instanceof ContinueAsNew)) await report(notRolledOut(unit, error));
    throw error;
  }
}
