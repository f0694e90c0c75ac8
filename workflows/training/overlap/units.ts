/**
 * A run's units, each a batch that outlives the run's history: its name, and how it is started, found and cancelled.
 * Nothing here decides.
 */

import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ChildWorkflowCancellationType,
  ChildWorkflowFailure,
  type ExternalWorkflowHandle,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  startChild,
  TerminatedFailure,
} from '@temporalio/workflow';
import type { End } from '../../../protocol/breaker.ts';
import { policyVersionKey, runKey, stepKey } from '../../../protocol/search-attributes.ts';
import type { OpenedConfig } from '../../../protocol/run-config.ts';
import type { Unit } from '../../../protocol/admission.ts';
import { drawnBy, policyOf } from '../modes.ts';
import { batch as batchWorkflow } from '../../batch.ts';
import type { UnitReport } from '../../batch/report-batch-end.ts';
import { aimOf, batchInput } from '../step-tasks.ts';

/** A unit ignores this unknown signal: sending it only shows whether the unit runs. */
const LOOK_SIGNAL = 'lookedAfter';

/** The current state of the run. */
export interface UnitsHost {
  readonly config: OpenedConfig;
  /** How its last rollouts ended. */
  readonly lately: readonly End[];
  unitEnded(report: UnitReport): void;
}

export class Units {
  readonly #host: UnitsHost;

  constructor(host: UnitsHost) {
    this.#host = host;
  }

  nameOf({ number }: Unit): string {
    return drawnBy(this.#host.config, number).name;
  }

  batchOf(unit: Unit): string {
    return `train/${this.#host.config.run}/${this.nameOf(unit)}`;
  }

  handleOf(unit: Unit): ExternalWorkflowHandle {
    return getExternalWorkflowHandle(this.batchOf(unit));
  }

  /**
   * Returns when the unit runs; false if it was running already, since before the run was restarted from its records.
   * If a started unit is terminated, this history of the run reports it.
   */
  async start(unit: Unit): Promise<boolean> {
    const { config, lately } = this.#host;
    const drawn = drawnBy(config, unit.number);
    try {
      const child = await startChild(batchWorkflow, {
        workflowId: this.batchOf(unit),
        // A run that continues in a new history keeps its units; a run that ends cancels them by name.
        parentClosePolicy: ParentClosePolicy.ABANDON,
        cancellationType: ChildWorkflowCancellationType.ABANDON,
        staticSummary: `${aimOf(drawn)} tasks × ${config.batch.samples} · policy v${unit.policy.version}`,
        typedSearchAttributes: [
          { key: runKey, value: config.run },
          { key: stepKey, value: drawn.step },
          { key: policyVersionKey, value: unit.policy.version },
        ],
        args: [{ ...batchInput(config, drawn, policyOf(config, unit), lately), unit: unit.number }],
      });
      child.result().catch((error: unknown) => {
        if (!(error instanceof ChildWorkflowFailure && error.cause instanceof TerminatedFailure)) return;
        const failure = { failure: 'cancelled', message: 'terminated' } as const;
        this.#host.unitEnded({ number: unit.number, end: 'failed', message: failure.message, mendable: failure });
      });
      return true;
    } catch (error) {
      // It will report like any other.
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      return false;
    }
  }

  /** True if the unit runs. One that does not run has reported its end, or never will. */
  async isThere(unit: Unit): Promise<boolean> {
    try {
      await this.handleOf(unit).signal(LOOK_SIGNAL);
      return true;
    } catch {
      return false;
    }
  }

  /** Cancels the unit; true if it will report that. Cancelling an ended workflow succeeds, but signalling it fails. */
  async cancel(unit: Unit): Promise<boolean> {
    if (!(await this.isThere(unit))) return false;
    return this.handleOf(unit)
      .cancel()
      .then(
        () => true,
        () => false,
      );
  }
}
