/**
 * The batches that the run itself waits for, as child workflows: each receives pauses while it runs, and the oldest is
 * shown.
 */

import { ParentClosePolicy, startChild } from '@temporalio/workflow';
import { batch as batchWorkflow } from '../batch.ts';
import { endOfChild } from '../end-of-child.ts';
import type { BatchInput, BatchResult } from '../../protocol/batch.ts';
import type { TrainStatus } from '../../protocol/train-status.ts';
import type { PauseRelay } from '../pause-relay.ts';
import { policyVersionKey, runKey, stepKey } from '../../protocol/search-attributes.ts';
import { whenFree } from '../start-child-when-free.ts';
import { aimOf } from './step-tasks.ts';

export class RunBatches {
  readonly #relay: PauseRelay;
  /** Running batches, oldest first. */
  readonly #running = new Map<string, NonNullable<TrainStatus['batch']>>();
  #last: TrainStatus['batch'] = null;

  constructor(relay: PauseRelay) {
    this.#relay = relay;
  }

  get anyRuns(): boolean {
    return this.#running.size > 0;
  }

  /** The oldest running batch, or else the last one. */
  get shown(): TrainStatus['batch'] {
    return this.#last;
  }

  /** `step`: the run's, for the search attribute. */
  async rollOut(input: BatchInput, step: number): Promise<BatchResult> {
    const { run, name, samples, policy } = input;
    this.#running.set(name, { name, total: aimOf(input) * samples });
    this.#show();
    const child = await whenFree(() =>
      startChild(batchWorkflow, {
        workflowId: `train/${run}/${name}`,
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        staticSummary: `${aimOf(input)} tasks × ${samples} · policy v${policy.version}`,
        typedSearchAttributes: [
          { key: runKey, value: run },
          { key: stepKey, value: step },
          { key: policyVersionKey, value: policy.version },
        ],
        args: [input],
      }),
    );
    this.#relay.add(name, child);
    try {
      return await endOfChild(child);
    } finally {
      this.#relay.remove(name);
      this.#running.delete(name);
      this.#show();
    }
  }

  #show(): void {
    this.#last = this.#running.values().next().value ?? this.#last;
  }
}
