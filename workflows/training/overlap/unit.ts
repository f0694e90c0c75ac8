/**
 * A unit of rollouts that outlives its run's history: a batch whose end is reported by signal to whatever execution of
 * the run there is by then. A unit that has ended in any way has reported it before, or its run is gone.
 */

import {
  CancellationScope,
  getExternalWorkflowHandle,
  isCancellation,
  ParentClosePolicy,
  rootCause,
  startChild,
  type ChildWorkflowHandle,
} from '@temporalio/workflow';
import { batch as batchWorkflow } from '../../batch.ts';
import { type CircuitOpened, circuitOpenedSignal } from '../../failures/failure-watch.ts';
import { endOfChild } from '../../end-of-child.ts';
import { mendable } from '../../failures/mendable.ts';
import { setOrderedSignalHandlers, on } from '../../ordered-signals.ts';
import { PauseRelay } from '../../pause-relay.ts';
import { pauseSignal, resumeSignal } from '../../rollout.ts';
import { policyVersionKey, runKey, stepKey } from '../../../protocol/search-attributes.ts';
import { whenFree } from '../../start-child-when-free.ts';
import type { BatchInput } from '../../../protocol/batch.ts';
import { aimOf } from '../step-tasks.ts';
import { type UnitReport, unitEndedSignal } from './unit-report.ts';

export interface UnitInput {
  readonly number: number;
  /** Workflow id of the run that hears of its end. */
  readonly train: string;
  readonly batch: BatchInput;
}

/** A batch under the same name may be being cancelled, since its unit was ended by hand. */
function startBatch({ batch, train }: UnitInput): Promise<ChildWorkflowHandle<typeof batchWorkflow>> {
  const { run, name, step, policy, samples } = batch;
  return whenFree(() =>
    startChild(batchWorkflow, {
      workflowId: `${train}/${name}`,
      parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      staticSummary: `${aimOf(batch)} tasks × ${samples} · policy v${policy.version}`,
      typedSearchAttributes: [
        { key: runKey, value: run },
        { key: stepKey, value: step },
        { key: policyVersionKey, value: policy.version },
      ],
      args: [{ ...batch, unitOf: train }],
    }),
  );
}

function reportOf(number: number, error: unknown): UnitReport {
  const message = (rootCause(error) ?? String(error)).slice(0, 300);
  const end = isCancellation(error) ? 'cancelled' : 'failed';
  const failure = end === 'cancelled' ? ({ failure: end, message } as const) : mendable(error);
  return { number, end, message, ...(failure && { mendable: failure }) };
}

async function report(train: string, said: UnitReport): Promise<void> {
  try {
    await CancellationScope.nonCancellable(() => getExternalWorkflowHandle(train).signal(unitEndedSignal, said));
  } catch {
    // The run is gone: nobody waits for this unit.
  }
}

export async function unit(input: UnitInput): Promise<void> {
  const relay = new PauseRelay();
  let resumed = 0;
  setOrderedSignalHandlers(
    on(pauseSignal, () => relay.set(true)),
    on(resumeSignal, () => {
      resumed += 1;
      relay.set(false);
    }),
    on<CircuitOpened>(circuitOpenedSignal, (trip, held, heard) => {
      if (held !== undefined && relay.isResumed(held, heard)) return;
      if (held !== undefined) relay.stands(held);
      const said: CircuitOpened = held === undefined ? [trip] : [trip, held, resumed];
      // A run that is gone pauses no more.
      getExternalWorkflowHandle(input.train)
        .signal(circuitOpenedSignal, ...said)
        .catch(() => undefined);
    }),
  );
  try {
    const child = await startBatch(input);
    relay.add(input.batch.name, child);
    const { groups, rollouts, failures, said, ends } = await endOfChild(child);
    relay.remove(input.batch.name);
    await report(input.train, {
      number: input.number,
      end: 'rolled-out',
      groups,
      ends: { rollouts, failures, ...(said && { said }), ...(ends && { ends }) },
    });
  } catch (error) {
    await report(input.train, reportOf(input.number, error));
    throw error;
  }
}
